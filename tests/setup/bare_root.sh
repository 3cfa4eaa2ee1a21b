#!/bin/sh
# Runs a command in a copy of this tree, in a root that has nothing but Debian's minimum and python3, python3-venv, g++ and
# make: sh tests/setup/bare_root.sh COMMAND... The root is of the host's own release and mirror, made once and cached. Its
# processes and mounts live in namespaces of their own, so that none is left, however this script ends. Needs root.
# Exit code 77: such a root cannot be made here, for the reason printed; else that of the command.
set -eu
tree=$(CDPATH= cd -- "$(dirname -- "$0")/../.." && pwd)
here=tests/setup
# /src, not /tmp: tests look at what is left in /tmp.
place=/src

cannot() { echo "bare root: not possible here: $*" >&2; exit 77; }

[ "$(id -u)" = 0 ] || cannot "chroot and mounts need root"
command -v apt-get > /dev/null || cannot "no apt-get"
for program in debootstrap unshare; do
  command -v $program > /dev/null && continue
  echo "bare root: installing debootstrap and util-linux" >&2
  DEBIAN_FRONTEND=noninteractive
  export DEBIAN_FRONTEND
  { apt-get install -qy debootstrap util-linux || { apt-get update -q && apt-get install -qy debootstrap util-linux; }; } \
    > /dev/null 2>&1 || cannot "debootstrap cannot be installed"
done
unshare --mount --pid --fork true 2> /dev/null || cannot "no namespaces"

release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$release //p" | head -n 1)
[ -n "$release$mirror" ] && [ -n "$mirror" ] || cannot "apt's sources name no mirror of this release ('$release')"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/clickline/bare-root-$release
scratch=$(mktemp -d)
child=
clean() {
  # The first process of a namespace takes all others, and the mounts, with it.
  [ -z "$child" ] || { kill -9 "$child" 2> /dev/null; wait "$child" 2> /dev/null; } || true
  rm -rf --one-file-system "$scratch" "$cache.new"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

if ! [ -d "$cache" ]; then
  echo "bare root: making $cache ($release, minbase, python3 python3-venv g++ make)" >&2
  mkdir -p "$cache.new"
  debootstrap --variant=minbase --include=python3,python3-venv,g++,make "$release" "$cache.new" "$mirror" \
    > "$scratch/log" 2>&1 || { tail -n 5 "$scratch/log" >&2; cannot "debootstrap failed"; }
  rm -f "$cache.new"/var/cache/apt/archives/*.deb
  mv "$cache.new" "$cache"
fi

root=$scratch/root
cp -a --reflink=auto "$cache" "$root"
mkdir "$root$place"
# What git would have, and what is new: neither .venv nor build.
if git -C "$tree" rev-parse > /dev/null 2>&1; then
  git -C "$tree" ls-files -z --cached --others --exclude-standard > "$scratch/files"
  tar -C "$tree" -c --ignore-failed-read --null -T "$scratch/files" 2> /dev/null | tar -C "$root$place" -x
else
  tar -C "$tree" -c --exclude ./.venv --exclude ./build --exclude ./runs . | tar -C "$root$place" -x
fi

sh "$tree/$here/enter_bare_root.sh" "$root" "$place" "$@" < /dev/null &
child=$!
status=0
wait "$child" || status=$?
child=
counts=build/test-counts.json # of tests, for docs/robustness.md: they outlive the root
if [ -f "$root$place/$counts" ]; then
  mkdir -p "$tree/build"
  cp "$root$place/$counts" "$tree/$counts"
fi
exit "$status"
