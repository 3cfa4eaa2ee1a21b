#!/bin/sh
# Runs a command beside a whole Kubernetes of one node, in which pods really run: sh tests/setup/kubernetes/with_cluster.sh
# COMMAND... Its environment has KUBECONFIG (of an administrator) and CLICKLINE_TEST_NODE, a directory: `shared` in it can be
# mounted by pods as hostPath, `node` has the logs. IMAGES are loaded into the node, tar files separated by spaces.
#
# The node has namespaces of its own for mounts, network and processes. Its first process takes all others, all pods, all mounts
# and the network with it, and is killed when this script ends, however it does.
# Exit code 77: not possible here, for the reason printed; else that of the command. Needs root on Debian.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
name=cluster
. "$here/packages.sh"

[ "$(id -u)" = 0 ] || cannot "namespaces and mounts need root"
bin=${XDG_CACHE_HOME:-$HOME/.cache}/clickline/kubernetes-1.20/bin
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
  [ -x "$bin/$program" ] || cannot "there is no $bin/$program; type: make cluster"
done
need etcd-server etcd
need containerd containerd ctr
need runc runc
need iptables iptables
need iproute2 ip
need openssl openssl
[ -x /usr/lib/cni/bridge ] || install containernetworking-plugins
unshare --mount --net --pid --fork true 2> /dev/null || cannot "no namespaces"

# 198.19.N.0/24 are the node and this host, 198.19.N+1.0/24 services, 198.19.N+2.0/24 pods; N is one that no other cluster here has.
number=0
while ip -o address show | grep -q " 198\.19\.$number\.254/"; do
  number=$((number + 4))
  [ "$number" -lt 256 ] || cannot "all of 198.19.0.0/16 is taken by clusters"
done

directory=$(mktemp -d "${TMPDIR:-/tmp}/clickline-cluster-XXXXXX")
link=clk$number
cgroup=clickline-$$
node='' command=''
clean() {
  trap '' INT TERM HUP
  [ -z "$command" ] || kill -s TERM "$command" 2> /dev/null || true
  [ -z "$command" ] || wait "$command" 2> /dev/null || true
  [ -z "$node" ] || { kill -s KILL "$node"; wait "$node"; } 2> /dev/null || true
  ip link delete "$link" 2> /dev/null || true
  remove_groups "$cgroup"
  rm -rf --one-file-system "$directory"
}
# Control groups are in no namespace that ends: of this cluster, and of one that was killed before it could remove them.
remove_groups() {
  for group in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
    [ -d "$group" ] || continue
    tries=0
    until find "$group" -depth -type d -exec rmdir {} + 2> /dev/null || [ "$tries" = 50 ]; do
      tries=$((tries + 1))
      sleep 0.1 # its processes have been killed, and are not gone yet
    done
  done
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
for group in /sys/fs/cgroup/clickline-* /sys/fs/cgroup/*/clickline-*; do
  [ -d "$group" ] || continue
  owner=${group##*-}
  [ -d "/proc/$owner" ] || remove_groups "clickline-$owner"
done

chmod 755 "$directory"
mkdir "$directory/node"
mkdir -m 777 "$directory/shared"
chmod 1777 "$directory/shared"
setpriv --pdeathsig KILL unshare --mount --net --pid --fork --kill-child --mount-proc \
  sh "$here/node.sh" "$bin" "$directory/node" "198.19.$number" "198.19.$((number + 1))" "198.19.$((number + 2))" "$cgroup" ${IMAGES:-} \
  > "$directory/node.log" 2>&1 < /dev/null &
node=$!

failed() { # the logs are removed with the directory
  say "the node did not start; the ends of its logs:"
  tail -n 5 "$directory/node.log" "$directory"/node/*.log >&2 || true
  exit 1
}
until_file() { # FILE SECONDS
  tries=0
  until [ -e "$1" ]; do
    kill -s 0 "$node" 2> /dev/null && [ "$tries" -lt $(($2 * 10)) ] || failed
    tries=$((tries + 1))
    sleep 0.1
  done
}
until_file "$directory/node/alone" 10
ip link add "$link" type veth peer name node0 netns "$(cat /proc/"$node"/task/"$node"/children | tr -d ' ')"
ip address add "198.19.$number.254/24" dev "$link"
ip link set "$link" up
ip route add "198.19.$((number + 2)).0/24" via "198.19.$number.1"
until_file "$directory/node/ready" 180

export KUBECONFIG="$directory/node/kubeconfig" CLICKLINE_TEST_NODE="$directory" PATH="$PATH:$bin"
[ $# -gt 0 ] || set -- "${SHELL:-sh}"
if [ -t 0 ]; then
  status=0
  "$@" || status=$?
  exit "$status"
fi
exec 3<&0 # what runs in the background would else read nothing
"$@" <&3 3<&- &
command=$!
status=0
wait "$command" || status=$?
command=
exit "$status"
