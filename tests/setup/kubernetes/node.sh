#!/bin/sh
# Used by with_cluster.sh: node.sh BIN DIRECTORY NODE SERVICES PODS CGROUP IMAGE... is the first process of a node in namespaces
# of its own: etcd, the control plane, containerd, kubelet and kube-proxy. NODE, SERVICES, PODS are networks, such as 198.19.0.
# There is a file `alone` in the directory when the namespaces are there, `ready` when the node takes pods; a process that ends, ends all.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
bin=$1 directory=$2 node=$3.1 services=$4.0/24 pods=$5.0/24 cgroup=$6
shift 6
cd "$directory"

mount --make-rprivate /
mount -t tmpfs tmpfs /var/log # the kubelet's /var/log/pods and /var/log/containers
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns # of pods: their names would stay when they are gone
# The kubelet writes these settings of the whole machine: here, plain files take it.
mkdir settings
for setting in kernel/panic=10 kernel/panic_on_oops=1 vm/overcommit_memory=1 vm/panic_on_oom=0; do
  file=settings/$(echo "${setting%=*}" | tr / _)
  echo "${setting#*=}" > "$file"
  mount --bind "$file" "/proc/sys/${setting%=*}"
done
mkdir kubelet
mount --bind kubelet kubelet
mount --make-shared kubelet # volumes that it mounts are seen in containers
for hierarchy in /sys/fs/cgroup/*/cgroup.procs; do mkdir -p "${hierarchy%/cgroup.procs}/$cgroup"; done
[ ! -e /sys/fs/cgroup/cgroup.procs ] || mkdir -p "/sys/fs/cgroup/$cgroup"
if [ -e /sys/fs/cgroup/cpuset/cpuset.cpus ]; then # an empty set takes no process
  for file in cpuset.cpus cpuset.mems; do cat "/sys/fs/cgroup/cpuset/$file" > "/sys/fs/cgroup/cpuset/$cgroup/$file"; done
fi
: > alone

waiting() { # SECONDS COMMAND...: until it succeeds
  tries=$(($1 * 10))
  shift
  until "$@" > /dev/null 2>&1; do
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || { echo "node: in vain: $*"; exit 1; }
    sleep 0.1
  done
}
mkfifo ended
start() { # NAME COMMAND...: what is started ends with this process, which is the first of its namespace
  log=$1.log
  shift
  { "$@" > "$log" 2>&1 || true; echo "$1, see $log" > ended; } &
}

waiting 10 ip link show node0
ip link set lo up
ip address add "$node/24" dev node0
ip link set node0 up
ip route add default via "${node%.1}.254" # the kubelet wants one

openssl genrsa -out accounts.key 2048 2> /dev/null
umask 077
token=$(openssl rand -hex 16)
echo "$token,admin,admin,\"system:masters\"" > tokens.csv
cat > kubeconfig << END
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$node:6443", insecure-skip-tls-verify: true}}]
users: [{name: test, user: {token: $token}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
END
umask 022
store=http://127.0.0.1:2379 peer=http://127.0.0.1:2380
start etcd etcd --data-dir=etcd --listen-client-urls=$store --advertise-client-urls=$store --listen-peer-urls=$peer \
  --initial-advertise-peer-urls=$peer --initial-cluster=default=$peer --unsafe-no-fsync
start apiserver "$bin/kube-apiserver" --etcd-servers=$store --cert-dir=certificates --bind-address=0.0.0.0 --advertise-address="$node" \
  --secure-port=6443 --service-cluster-ip-range="$services" --service-account-issuer=https://kubernetes.default.svc \
  --service-account-signing-key-file=accounts.key --service-account-key-file=accounts.key --token-auth-file=tokens.csv \
  --authorization-mode=Node,RBAC --allow-privileged=true --kubelet-preferred-address-types=InternalIP

# A local image for the sandbox of a pod, no score of the OOM killer below one's own (that takes CAP_SYS_RESOURCE).
mkdir networks
cat > containerd.toml << END
version = 2
root = "$directory/containerd/root"
state = "$directory/containerd/state"
[grpc]
  address = "$directory/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$directory/networks"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
END
cat > networks/10-pods.conflist << END
{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "$directory/addresses", "ranges": [[{"subnet": "$pods"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
END
start containerd containerd --config containerd.toml
waiting 30 ctr --address containerd.sock version
for image in "$@"; do ctr --address containerd.sock --namespace k8s.io images import "$image"; done

export KUBECONFIG="$directory/kubeconfig"
waiting 120 "$bin/kubectl" get --raw /readyz
start controllers "$bin/kube-controller-manager" --kubeconfig=kubeconfig --service-account-private-key-file=accounts.key \
  --root-ca-file=certificates/apiserver.crt --leader-elect=false --cert-dir=controllers --bind-address=127.0.0.1
start scheduler "$bin/kube-scheduler" --kubeconfig=kubeconfig --leader-elect=false --bind-address=127.0.0.1
cat > kubelet.yaml << END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
cgroupRoot: /$cgroup
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failSwapOn: false
oomScoreAdj: 0
resolvConf: ""
clusterDNS: [$node]
clusterDomain: cluster.local
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "1%", memory.available: "100Mi"}
END
start kubelet "$bin/kubelet" --config=kubelet.yaml --kubeconfig=kubeconfig --root-dir="$directory/kubelet" --cert-dir=kubelet-certificates \
  --hostname-override=node1 --node-ip="$node" --keep-terminated-pod-volumes --container-runtime=remote --container-runtime-endpoint="unix://$directory/containerd.sock"
start dns python3 "$here/cluster_dns.py" "$node" kubeconfig
start proxy "$bin/kube-proxy" --kubeconfig=kubeconfig --hostname-override=node1 --proxy-mode=iptables --cluster-cidr="$pods" \
  --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0 --bind-address="$node" \
  --metrics-bind-address=127.0.0.1:10249
waiting 120 "$bin/kubectl" wait --for=condition=Ready node/node1 --timeout=5s
waiting 60 "$bin/kubectl" get serviceaccount default # without it no pod is accepted
: > ready
read -r program < ended
echo "node: it ended: $program"
exit 1
