#!/bin/sh
# Builds the image of this checkout with buildah, by its Containerfile: sh tests/setup/kubernetes/image.sh. Prints the tar files that a
# node of with_cluster.sh needs: that image, and the one that holds a pod's namespaces. Layers are kept in ~/.cache/clickline/image, so
# that it takes minutes once and seconds after a change of the checkout. No registry is asked for an image: the base is made by
# debootstrap. pip and apt reach their packages as on this host, by its settings.
# Exit code 77: not possible here, for the reason printed. Needs root on Debian.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
tree=$(cd "$here/../../.." && pwd)
name=image
. "$here/packages.sh"

[ "$(id -u)" = 0 ] || cannot "layers are mounted by root"
need buildah buildah
need runc runc
need debootstrap debootstrap
need busybox-static busybox
cache=${XDG_CACHE_HOME:-$HOME/.cache}/clickline/image
mkdir -p "$cache"
exec 9> "$cache/lock"
flock 9 # of two that build, the second finds the layers
scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# runc, as crun refuses hybrid control groups; limits that need no right to raise them.
cat > "$scratch/containers.conf" << END
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=20000:20000"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
END
export CONTAINERS_CONF="$scratch/containers.conf" TMPDIR="$scratch"
engine() { buildah --root "$cache/storage" --runroot "$scratch/run" --storage-driver overlay "$@"; }
quietly() { # output only if it fails
  "$@" > "$scratch/log" 2>&1 < /dev/null || { tail -n 30 "$scratch/log" >&2; exit 1; }
}

image_of() { # DIRECTORY NAME [OPTIONS OF BUILDAH CONFIG...]: an image with that directory as its root
  directory=$1 image=$2
  shift 2
  container=$(engine from scratch)
  quietly engine copy "$container" "$directory" /
  [ $# = 0 ] || quietly engine config "$@" "$container"
  quietly engine commit --rm "$container" "$image"
  rm -rf "$directory"
}

if [ -d "$cache/storage" ] && [ "$(du -sm "$cache/storage" | cut -f 1)" -gt 15000 ]; then
  rm -rf --one-file-system "$cache/storage" # layers of many checkouts ago
fi

release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
base=localhost/base:$release
if ! engine inspect --type image "$base" > /dev/null 2>&1; then
  mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$release //p" | head -n 1)
  [ -n "$release" ] && [ -n "$mirror" ] || cannot "apt's sources name no mirror of this release ('$release')"
  say "making a base by debootstrap ($release; a minute)"
  quietly debootstrap --variant=minbase --include=ca-certificates "$release" "$scratch/base" "$mirror"
  rm -rf "$scratch"/base/var/cache/apt/* "$scratch"/base/var/lib/apt/lists/*
  image_of "$scratch/base" "$base"
fi
if ! [ -e "$cache/pause.tar" ]; then
  mkdir "$scratch/pause"
  cp "$(command -v busybox)" "$scratch/pause/sleep"
  image_of "$scratch/pause" localhost/pause:1 --cmd '["/sleep", "infinity"]'
  quietly engine push localhost/pause:1 "docker-archive:$scratch/pause.tar:localhost/pause:1"
  mv "$scratch/pause.tar" "$cache/pause.tar"
fi

# pip's settings as one file, with the directories that it names. A certificate gets a path of its own: that of the system is
# written when its package is installed.
set --
echo '[global]' > "$scratch/pip.conf"
python3 -m pip config list 2> /dev/null | sed "s/^[^.]*\.//; s/='\(.*\)'\$/ = \1/" |
  grep -E '^(index-url|extra-index-url|find-links|cert|trusted-host|proxy|default-timeout) = ' | sort -u > "$scratch/settings" || true
certificate=$(sed -n 's/^cert = //p' "$scratch/settings")
[ -z "$certificate" ] || set -- "$@" -v "$certificate:/run/pip/certificate.pem:ro"
sed 's|^cert = .*|cert = /run/pip/certificate.pem|; s/^default-timeout/timeout/' "$scratch/settings" >> "$scratch/pip.conf"
for place in $(tr ' =,' '\n\n\n' < "$scratch/settings" | sed -n 's|^file://\(/.*\)/[^/]*/*$|\1|p; s|^\(/.*\)|\1|p' | sort -u); do
  [ ! -d "$place" ] || set -- "$@" -v "$place:$place:ro"
done

say "building it (minutes at first, seconds after a change)"
quietly engine build --isolation oci --pull=never --layers --network host --build-arg BASE="$base" \
  -v /etc/apt:/etc/apt:ro -v "$scratch/pip.conf:/etc/pip.conf:ro" "$@" -t clickline:test -f "$tree/Containerfile" "$tree"
id=$(engine images --quiet --no-trunc clickline:test | sed 's/sha256://')
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$tree/pyproject.toml")
tar=$cache/clickline-$version-$(echo "$id" | cut -c 1-16).tar
if ! [ -e "$tar" ]; then
  find "$cache" -name 'clickline-*.tar' -mmin +720 -delete # not those of other checkouts, whose clusters may be starting
  # The name is that by which a node looks for `clickline:0.1.0`.
  quietly engine push clickline:test "docker-archive:$scratch/image.tar:docker.io/library/clickline:$version"
  mv "$scratch/image.tar" "$tar"
fi
say "$(engine images --format '{{.Size}}' clickline:test) in $tar"
echo "$cache/pause.tar $tar"
