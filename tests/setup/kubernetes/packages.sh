# Sourced by the scripts beside it, which set `name`: need PACKAGE PROGRAM... installs a Debian package if one of its programs is not
# there. Exit code 77 of whoever sources it: not possible here, for the reason printed.
# shellcheck shell=sh
cannot() { echo "$name: not possible here: $*" >&2; exit 77; }
say() { echo "$name: $*" >&2; }

apt="env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=120"
install() { # without package lists, as in a container's image, the first try fails
  [ "$(id -u)" = 0 ] || cannot "packages are installed by root, and $* is missing"
  command -v apt-get > /dev/null || cannot "no apt-get, and $* is missing"
  # shellcheck disable=SC2086
  output=$({ $apt install --no-install-recommends "$@" || { $apt update && $apt install --no-install-recommends "$@"; }; } 2>&1) ||
    { echo "$output" | tail -n 5 >&2; cannot "apt-get install $*"; }
}

need() {
  package=$1
  shift
  for program in "$@"; do
    command -v "$program" > /dev/null || { install "$package"; return; }
  done
}
