#!/bin/sh
# Looks for what the Makefile needs, before it makes anything: a Python of the right version with venv and C headers, and
# a C++20 compiler. All else, cmake and ninja too, comes from pip. Usage: [CXX=...] sh requirements.sh [PYTHON [PROGRAM...]],
# with other programs that are needed, which are in packages of the same name.
# What is missing is installed if we are root on a system with apt; anybody else is told the one line to type.
set -eu
cd "$(dirname "$0")"
python=${1:-python3}
[ $# = 0 ] || shift
programs=$*

# Where the versions are written down: requires-python = ">=3.11,<3.14".
bounds=$(sed -n 's/^requires-python = ">=\([0-9.]*\),<\([0-9.]*\)"$/\1 \2/p' pyproject.toml)
wanted="Python ${bounds% *} or later (before ${bounds#* })"

# Runs in whatever Python there is, so nothing newer than Python 2.7.
probe='import os, sys, sysconfig
version = tuple(sys.version_info[:2])
oldest, beyond = [tuple(map(int, bound.split("."))) for bound in sys.argv[1:]]
try:
    import ensurepip, venv
    has_venv = "yes"
except ImportError:
    has_venv = "no"
include = sysconfig.get_path("include")
has_headers = "yes" if os.path.exists(os.path.join(include, "Python.h")) else "no"
name = "python%d.%d" % version
# Debian calls its packages python3-* for the version that python3 is, and python3.12-* for others.
family = "python3" if os.path.realpath("/usr/bin/python3") == "/usr/bin/" + name else name
if sys.base_prefix != "/usr":
    family = "none"
print("%d.%d.%d" % tuple(sys.version_info[:3]), "yes" if oldest <= version < beyond else "no", has_venv, has_headers,
      family, include)'

# Something of what the native core uses, for the processor that CMakeLists.txt builds for. Linked, because a compiler
# without its standard library is not enough.
source='#include <bit>
#include <latch>
#include <span>
#include <thread>
int main() {
  std::jthread thread([] {});
  return static_cast<int>(std::bit_cast<unsigned>(0.0f) + std::span<int>().size());
}'
processor=
case $(uname -m) in x86_64 | amd64) processor=-march=x86-64-v3 ;; esac

say() { echo "requirements: $*" >&2; }

# Fills in packages (Debian's names), missing (the same in words) and refused (lines about what no package mends).
look() {
  packages='' missing='' refused=''
  look_for_python
  look_for_compiler
  for program in $programs; do
    command -v "$program" > /dev/null || lacks "$program" "$program"
  done
}

lacks() { # PACKAGES WORDS
  packages="$packages${packages:+ }$1"
  missing="$missing${missing:+, }$2"
}

refuse() {
  refused="$refused$*
"
}

ask_python() { # PYTHON: its version, whether it fits, has venv, has headers, the family of its packages, its headers
  # shellcheck disable=SC2086
  "$1" -c "$probe" $bounds 2> /dev/null
}

look_for_python() {
  if ! path=$(command -v "$python"); then
    case $python in
      python3) lacks 'python3 python3-dev python3-venv' "$wanted with venv and C headers" ;;
      *) refuse "PYTHON=$python was not found; give the name or the path of $wanted" ;;
    esac
    return
  fi
  if ! answer=$(ask_python "$python") || [ -z "$answer" ]; then
    refuse "$path does not run as $wanted; type: make PYTHON=/path/to/python"
    return
  fi
  read -r version fits has_venv has_headers family include << EOF
$answer
EOF
  if [ "$fits" = no ]; then
    refuse "$path is Python $version; needed is $wanted; $(another_python)"
  elif [ "$family" = none ] && [ "$has_venv$has_headers" != yesyes ]; then
    words=
    [ "$has_venv" = yes ] || words=' ensurepip'
    [ "$has_headers" = yes ] || words="$words${words:+ and} $include/Python.h"
    refuse "$path (Python $version) is not the system's and lacks$words; type: make PYTHON=/usr/bin/python3"
  else
    [ "$has_headers" = yes ] || lacks "$family-dev" "the C headers of $path (Python $version), $include/Python.h"
    [ "$has_venv" = yes ] || lacks "$family-venv" "venv and ensurepip of $path (Python $version)"
  fi
}

another_python() { # what to type where the Python at hand is too old or too new
  again=
  case $python in .venv/*) again='rm -r .venv && ' ;; esac
  for other in python3.13 python3.12 python3.11; do
    case $(ask_python "$other") in
      *' yes yes yes '*) echo "type: ${again}make PYTHON=$other" && return ;;
    esac
  done
  for other in python3.13 python3.12 python3.11; do
    apt-cache show "$other-venv" > /dev/null 2>&1 || continue
    echo "type: ${again}${sudo}apt-get install -y $other-dev $other-venv && make PYTHON=$other" && return
  done
  echo "install one and type: ${again}make PYTHON=/path/to/python"
}

look_for_compiler() { # the one that cmake will take
  for compiler in ${CXX:-c++ g++ clang++}; do
    command -v "$compiler" > /dev/null || continue
    # shellcheck disable=SC2086
    echo "$source" | "$compiler" -std=c++20 $processor -pthread -x c++ - -o "$scratch/a.out" 2> "$scratch/errors" ||
      refuse "$compiler ($("$compiler" --version 2>&1 | head -n 1)) does not compile C++20${processor:+ with $processor}:" \
        "$(grep -m 1 -i error "$scratch/errors" || tail -n 1 "$scratch/errors"); needed is GCC 11 or later, or a Clang" \
        "of that age; type: make CXX=/path/to/compiler"
    return
  done
  if [ -n "${CXX:-}" ]; then
    refuse "CXX=$CXX was not found; give the name or the path of a C++20 compiler, such as GCC 11 or later"
  else
    lacks g++ 'a C++20 compiler (GCC 11 or later)'
  fi
}

install() {
  say "installing $packages (apt-get, as root)"
  # Without package lists, as in a container's image, or with old ones, the first try fails.
  apt="env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120"
  # shellcheck disable=SC2086
  $apt install --no-install-recommends $packages > "$scratch/log" 2>&1 ||
    { $apt update && $apt install --no-install-recommends $packages; } > "$scratch/log" 2>&1 ||
    { tail -n 20 "$scratch/log" >&2; return 1; }
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM HUP
root=no sudo='sudo '
[ "$(id -u)" != 0 ] || root=yes sudo=

look
if [ -n "$packages" ] && [ -z "$refused" ] && [ $root = yes ] && command -v apt-get > /dev/null; then
  install || { say "that failed; type: apt-get update && apt-get install -y $packages"; exit 1; }
  look
fi
[ -n "$packages$refused" ] || exit 0
if [ -n "$packages" ]; then
  say "missing: $missing"
  if command -v apt-get > /dev/null; then
    say "type: ${sudo}apt-get install -y $packages"
  else
    say "install them with this system's packages (Debian calls them $packages)"
  fi
fi
printf %s "$refused" | while read -r line; do say "$line"; done
exit 1
