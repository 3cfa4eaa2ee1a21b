#!/bin/sh
# Kubernetes for the tests, from source: sh tests/setup/kubernetes/build.sh [CACHE]. No package ships a cluster, but Debian's
# source package `kubernetes` is the whole of 1.20 with its vendored dependencies. Built once (7 minutes on two cores) into
# CACHE/bin, in order of need; what is there is not built again, and a program is there whole or not at all. Prints CACHE.
# Exit code 77: it cannot be built here, for the reason printed. Needs root on Debian, for apt-get.
set -eu
cache=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/clickline/kubernetes-1.20}
programs="kube-apiserver kubectl kube-controller-manager kube-scheduler kubelet kube-proxy"
name=kubernetes
. "$(dirname "$0")/packages.sh"

missing() { for program in $programs; do [ -x "$cache/bin/$program" ] || echo "$program"; done; }

mkdir -p "$cache/bin"
cache=$(cd "$cache" && pwd)
if [ -z "$(missing)" ] && command -v etcd > /dev/null; then
  echo "$cache"
  exit 0
fi
[ "$(id -u)" = 0 ] || cannot "packages are installed by root"
command -v apt-get > /dev/null || cannot "no apt-get"
exec 9> "$cache/lock"
flock 9 # of two that build, the second finds it built

log=$cache/build.log
: > "$log"
need etcd-server etcd
if [ -z "$(missing)" ]; then
  echo "$cache"
  exit 0
fi
say "building $(missing | tr '\n' ' ')in $cache (minutes; output in $log)"
install golang-go rsync jq make dpkg-dev golang-github-modern-go-reflect2-dev

# Source packages, from the mirror that this machine uses, in package lists of their own.
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' | sed -n "s/^$release //p" | head -n 1)
[ -n "$release" ] && [ -n "$mirror" ] || cannot "apt's sources name no mirror of this release ('$release')"
work=$cache/work
rm -rf "$work"
trap 'chmod -R u+w "$work" 2> /dev/null; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/parts" "$work/source" "$work/home"
echo "deb-src $mirror $release main" > "$work/parts/source.list"
cat > "$work/apt.conf" << END
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "$work/parts";
Dir::State::lists "$work/lists";
Dir::Cache "$work";
APT::Sandbox::User "root";
END
cd "$work/source"
{ APT_CONFIG=$work/apt.conf $apt update && APT_CONFIG=$work/apt.conf $apt source --download-only kubernetes; } >> "$log" 2>&1 ||
  { tail -n 5 "$log" >&2; cannot "the source package kubernetes was not found at $mirror"; }
version=$(ls kubernetes_*.orig.tar.gz | sed 's/kubernetes_\([0-9.]*[0-9]\).*/\1/')
case $version in 1.20.*) ;; *) cannot "release '$release' has Kubernetes $version, and only 1.20 is known to build" ;; esac

export GOPATH="$work/gopath" GOCACHE="$work/gocache" HOME="$work/home" CGO_ENABLED=0 GOFLAGS=-modcacherw
tree=$GOPATH/src/k8s.io/kubernetes
mkdir -p "$tree"
tar xzf kubernetes_*.orig.tar.gz --strip-components=1 -C "$tree"
cd "$tree"
# The vendored reflect2 makes the API server die at the first write of a custom resource with a Go of today.
rm -rf vendor/github.com/modern-go/reflect2
cp -r /usr/share/gocode/src/github.com/modern-go/reflect2 vendor/github.com/modern-go/
make gen_openapi >> "$log" 2>&1 || { tail -n 20 "$log" >&2; exit 1; }
export GO111MODULE=off GOFLAGS=
flags="-s -w"
for package in k8s.io/kubernetes/vendor/k8s.io/component-base/version k8s.io/kubernetes/vendor/k8s.io/client-go/pkg/version; do
  flags="$flags -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=20 -X $package.gitTreeState=clean"
  flags="$flags -X $package.gitCommit=debian -X $package.buildDate=2021-01-13T00:00:00Z"
done
for program in $(missing); do
  go build -ldflags "$flags" -o "$work/program" "k8s.io/kubernetes/cmd/$program" >> "$log" 2>&1 ||
    { tail -n 20 "$log" >&2; exit 1; }
  mv "$work/program" "$cache/bin/$program"
  say "built $program"
done
echo "$cache"
