#!/bin/sh
# Used by bare_root.sh: enter_bare_root.sh ROOT DIRECTORY COMMAND... runs the command there, with the host's network, and with its settings
# of pip and apt, wherever those are and whatever they say.
set -eu
root=$1 directory=$2
shift 2

# pip's files, and the directories and certificates that they or the environment name.
settings=$(env | grep '^PIP_' || true)
files=$(python3 -m pip config debug 2> /dev/null | sed -n 's/^ *\(.*\), exists: True$/\1/p') || files=
for file in $files; do
  mkdir -p "$root$(dirname "$file")"
  cp "$file" "$root$file"
  settings="$settings $(cat "$file")"
done
named=$(echo "$settings" | tr ' =,' '\n\n\n' | sed -n 's|^file://\(/.*\)/[^/]*/*$|\1|p; s|^\(/.*\)|\1|p' | sort -u)
for file in $named; do
  if [ -f "$file" ]; then
    mkdir -p "$root$(dirname "$file")"
    cp -L "$file" "$root$file"
  elif [ -d "$file" ]; then
    mkdir -p "$root$file"
    echo "$file"
  fi
done > "$root/.bound"
cluster=$HOME/.cache/clickline/kubernetes-1.20 # what `make cluster` has built, if it has
if [ -x "$cluster/bin/kube-apiserver" ]; then
  mkdir -p "$root$cluster"
  echo "$cluster" >> "$root/.bound"
fi
cp -RL /etc/apt/. "$root/etc/apt/" 2> /dev/null || true
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

# Only what concerns the way to the registries comes along.
kept=$(env | grep -E '^(PIP_[A-Z_]+|SSL_CERT_FILE|REQUESTS_CA_BUNDLE|(https?|no|HTTPS?|NO)_(proxy|PROXY))=[^ ]*$' || true)
# shellcheck disable=SC2016,SC2086
exec unshare --mount --pid --fork --kill-child sh -euc '
  root=$1 directory=$2 kept=$3
  shift 3
  mount --make-rprivate /
  mount --bind "$root" "$root" # "/" has to be a mount point, for who makes namespaces inside
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind /sys "$root/sys"
  mount -t tmpfs tmpfs "$root/run"
  while read -r bound; do
    mount --bind "$bound" "$root$bound"
    mount -o remount,bind,ro "$root$bound"
  done < "$root/.bound"
  # Not exec: the first process of the namespace collects what its children leave behind.
  env -i HOME="$HOME" LANG=C.UTF-8 TERM="${TERM:-dumb}" PATH=/usr/sbin:/usr/bin:/sbin:/bin $kept \
    chroot "$root" sh -c "cd \"\$0\" && exec \"\$@\"" "$directory" "$@"
  exit $?
' sh "$root" "$directory" "$kept" "$@"
