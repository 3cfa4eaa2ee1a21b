"""Every environment variable of the contract, ours and PaddlePaddle's: what is used, and what has no effect and why.

docs/reference/environment.md is made from it: python -m clickline.launch.variables docs/reference
"""

from __future__ import annotations

import sys
from pathlib import Path

from clickline.compat.paddle_environment.communicator_flags import DEAD, LIVE, MILLISECONDS, MOST_SECONDS

OURS = {
    "CLICKLINE_ROLE": "pserver, trainer or coordinator. The verb says it too; they must not contradict each other.",
    "CLICKLINE_RANK": "Which of its role this process is, from 0.",
    "CLICKLINE_PSERVERS": "Addresses of all parameter servers by rank, with commas between: `tcp:HOST:PORT` or "
    "`unix:/PATH`, an IPv6 host in brackets.",
    "CLICKLINE_TRAINERS": "Trainers that the job starts with; `cluster.trainers` if not set.",
    "CLICKLINE_COORDINATOR": "The coordinator's address. If not set, pserver 0 is the coordinator too, on its host and "
    "its port + 1000, or on its socket's path + `.coordinator`.",
    "CLICKLINE_COORDINATOR_PORT": "The port of a coordinator that is pserver 0 too, instead of its port + 1000: where "
    "each pod has few ports of its own.",
    "CLICKLINE_BIND": "Address or host alone to listen on, where it differs from the one that others are told.",
    "CLICKLINE_TOKEN": "The same secret text for all processes of a job, at least 16 characters. Required.",
    "CLICKLINE_TOKEN_FILE": "A file that holds the token, where CLICKLINE_TOKEN is not set.",
    "CLICKLINE_DIRECTORY": "The run's directory; `output`/`name` of the job if not set.",
    "CLICKLINE_NODE": "Number of the node that this process runs on, from 0, for `data.placement`; 0 if not set. "
    "Launchers on hosts number them as `cluster.hosts` lists them; on one machine all are node 0.",
    "CLICKLINE_LAUNCH": "A name for this start of the job, another one each time; launchers on hosts set it. A "
    "coordinator that is started again under the same name takes up its run, or ends at once if that has finished, "
    "whatever its options say: they were for the first time.",
    "CLICKLINE_THREADS": "Threads for dense maths.",
    "CLICKLINE_METRICS": "HOST:PORT, or PORT of the loopback address, where this one process answers `/metrics`, "
    "`/livez`, `/readyz`, `/health` and, if it knows the run, `/status`; stronger than `cluster.metrics…`. A pserver 0 "
    "with the coordinator in it answers for both. `clickline train` keeps it for itself, or gives it to rank 0.",
}
COLLECTIVE = {
    "CLICKLINE_DEVICE": "`cpu` (if not set) or `cuda`, for ranks of `strategy: collective`: with `cuda` they exchange "
    "rows and gradients by NCCL, provided that every rank has a GPU of its own, else by Gloo. Models are computed on "
    "the CPU either way.",
}
SERVING = {
    "CLICKLINE_CACHE": "Directory for copies of versions that `clickline serve` reads from a store elsewhere, shared "
    "by all predictors of this machine and user; `~/.cache/clickline/versions` if not set. Local copies of runs whose "
    "`output` is a URL are in its `runs`, copies of runs that are only read in its `run-copies`; if not set, in "
    "directories of these names in `~/.cache/clickline`.",
}
JOBS = {
    "CLICKLINE_UPLOAD_PATIENCE": "If `output` is a URL: seconds for which its store may stay away at the end of a run "
    "before the run fails, with everything in its local copy; 300 if not set.",
    "CLICKLINE_STATE": "Directory for records of jobs that were started on other hosts; "
    "`~/.local/state/clickline/jobs` if not set.",
    "CLICKLINE_FS_UGI": "USER,PASSWORD of the file system that a submission fetches from and copies to (`fs_ugi`).",
    "CLICKLINE_AK": "`ak` of a submission, which is used for nothing, and hidden all the same.",
    "CLICKLINE_SK": "The same of `sk`.",
    "CLICKLINE_CREDENTIALS": "A file with the same, as `fs_ugi = USER,PASSWORD`, that only its owner can read; "
    "`~/.config/clickline/credentials` if not set.",
    "PADDLE_PADDLEREC_ROLE": "WORKER: `clickline run` of a `cluster_train` runner is one process of a job that was "
    "submitted; else, with a backend.yaml, it submits.",
    "KUBECONFIG": "The cluster of `clickline k8s`, `clickline operator` and `clickline train --on kubernetes`; if not "
    "set, that of the pod's service account, else that of `~/.kube/config`.",
    "RAY_ADDRESS": "HOST:PORT of the Ray cluster for `clickline train --on ray`, of which this machine must be a node; "
    "the one that was started here if not set.",
}
INTERNAL = {
    "CLICKLINE_LAUNCHER": "Set by `clickline train` for what it starts: the process to die with.",
    "CLICKLINE_RUN_LOCK": "The same, for ranks: that the launcher holds the run's directory for rank 0.",
    "CLICKLINE_HEARTBEAT": "Set by `clickline up` and `clickline serve` for what they start: the descriptor of memory "
    "in which it counts that its loop turns.",
    "CLICKLINE_LISTENER": "Set by `clickline up` for the predictor: the descriptor of the socket that it serves.",
    "CLICKLINE_POD_IP": "Set by the operator: the IP of the pod, to which its CLICKLINE_METRICS refers.",
    "CLICKLINE_TERMINATION_LOG": "Set by the operator: the file in which the process that knows the run leaves what it "
    "came to, for Kubernetes.",
    "CLICKLINE_FILE": "Set for the command of `data.pipe_command`: the path or URL of the file that it gets.",
    "CLICKLINE_FAIL_AT": "For tests: the name of a point in the code at which the process kills itself.",
}
PADDLE = {
    "TRAINING_ROLE": "CLICKLINE_ROLE: PSERVER, TRAINER or WORKER. HETER is refused: there are no such trainers.",
    "PADDLE_TRAINING_ROLE": "The same.",
    "PADDLE_TRAINER_ID": "CLICKLINE_RANK of a trainer, and of a pserver that nothing else tells its rank.",
    "PADDLE_PSERVER_ID": "CLICKLINE_RANK of a pserver.",
    "PADDLE_TRAINERS_NUM": "CLICKLINE_TRAINERS.",
    "PADDLE_PSERVERS_NUM": "Must agree with the number of servers named by PaddlePaddle's lists.",
    "PADDLE_PSERVERS_IP_PORT_LIST": "CLICKLINE_PSERVERS, as HOST:PORT.",
    "PADDLE_PSERVERS": "The same, of earlier releases. Hosts alone get PADDLE_PORT (6174 if not set); a host named "
    "again, the next.",
    "PADDLE_TRAINER_ENDPOINTS": "Its length is CLICKLINE_TRAINERS. For `strategy: collective` also RANK, WORLD_SIZE, "
    "MASTER_ADDR and MASTER_PORT follow from it, where RANK is not set.",
    "PADDLE_TRAINERS": "Its length, or the number itself, is CLICKLINE_TRAINERS.",
    "PADDLE_TRAINER_IPS": "The same; the place of POD_IP in it is a trainer's rank if nothing else tells it.",
    "PADDLE_CURRENT_ENDPOINT": "Its place among the endpoints is the rank, if nothing else tells it.",
    "PADDLE_PORT": "With POD_IP, the pserver's own address, whose place in the list is its rank.",
    "POD_IP": "Own host, also to listen on.",
    "PADDLE_CURRENT_IP": "The same.",
    "CPU_NUM": "CLICKLINE_THREADS.",
    "NUM_THREADS": "The same, if CPU_NUM is not set.",
}
PLAIN_YAML = {
    "PADDLE_JOB_NAME": "The value of the labels paddle-job and paddle-job-pserver by which pods are found. Elsewhere "
    "without effect: the job's `name` is what processes compare.",
    "PSERVERS": "Number of servers to wait for, as PADDLE_PSERVERS_NUM is.",
    "TRAINERS": "The same of trainers, as PADDLE_TRAINERS_NUM is.",
    "PADDLE_INIT_NUM_GRADIENT_SERVERS": "The same, of earlier releases; set for ENTRY.",
    "PADDLE_INIT_PORT": "Port of server 0 if PADDLE_PORT is not set; others have the next.",
    "PORT": "The same if neither is.",
    "PADDLE_INIT_PSERVERS": "Set for ENTRY: the hosts of all servers.",
    "PADDLE_INIT_TRAINER_ID": "The same: the rank.",
    "NAMESPACE": "Where the pods are; that of the service account if not set.",
    "POD_NAME": "Which of the pods this is; HOSTNAME if not set. POD_IP tells it where neither does.",
    "ENTRY": "The command to run, by a shell, with all these variables; elsewhere it is the container's.",
    "TRAINER_PACKAGE": "Directory that is put in front of PYTHONPATH and, except for start_fluid, run in. Elsewhere "
    "PYTHONPATH says where modules are.",
    "TOPOLOGY": "The job's file, if neither an argument nor ENTRY says what to run.",
}
WITHOUT_EFFECT = {
    "TRAINER_PORTS_NUM": "trainers listen on no port",
    "PADDLE_HETER_ENDPOINTS": "there are no heterogeneous trainers",
    "PADDLE_WITH_GLOO": "barriers and global metrics go through the coordinator",
    "PADDLE_GLOO_RENDEZVOUS": "the same",
    "PADDLE_GLOO_HTTP_ENDPOINT": "the same",
    "PADDLE_ELASTIC_JOB_ID": "trainers may always join and leave; the coordinator keeps the list, not etcd",
    "PADDLE_ELASTIC_NP": "the same",
    "PADDLE_ELASTIC_TIMEOUT": "the same; cluster.evict_after says how long one may be silent",
    "PADDLE_ELASTIC_SERVER": "the same",
    "PADDLE_PADDLEREC_ROLE": "nothing submits itself to a cluster, so there is no master to tell from a worker",
    "PADDLEREC_CLUSTER_TYPE": "addresses are all that is needed to know of a cluster",
    "PADDLE_IS_LOCAL": "cluster.pservers and the verb say it",
    "PADDLE_INIT_NICS": "others know a process by its address; CLICKLINE_BIND says where to listen",
    "PADDLE_INIT_PORTS_NUM": "a server listens on one port",
    "PADDLE_INIT_PORTS_NUM_FOR_SPARSE": "the same",
    "PADDLE_INIT_TRAINER_COUNT": "CPU_NUM is the number of threads",
    "PADDLE_INIT_USE_GPU": "CLICKLINE_DEVICE says it for ranks",
    "PADDLE_INIT_NUM_PASSES": "`train.epochs` of the job does",
    "GLOG_v": "logs have one level",
    "GLOG_logtostderr": "logs always go to stderr",
    "HDFS_ADDRESS": "`data.train` names files in full, as hdfs:// or webhdfs://",
    "HDFS_UGI": "`data.storage` holds credentials, as `${env:NAME}`",
    "START_DATE_HR": "`data.train` names the files of the window",
    "END_DATE_HR": "the same",
    "DATASET_PATH": "`data.train` does; pass it on with --set data.train=…",
    "SPARSE_DIM": "tables grow with the keys they see",
    "CUBE_SHARD_NUM": "it is about delivery, not about training",
    "FILE_SERVER_SERVICE_HOST": "the same",
    "FILE_SERVER_SERVICE_PORT": "the same",
    "http_proxy": "processes connect to each other directly, never through a proxy",
    "https_proxy": "the same",
}
_HEAD = """\
# The environment

Made from the code by `python -m clickline.launch.variables docs/reference`; edit the code, not this file.

`clickline pserver`, `clickline trainer` and `clickline coordinator` read the job for what to do, and these variables
for who they are and where the others are. `clickline train` sets them for the processes that it starts; of
PaddlePaddle's it reads the communicator's flags and, for `strategy: collective`, PADDLE_TRAINER_ENDPOINTS. The names of
PaddlePaddle are understood, so that pods made for it need one more variable only, the token. Where both are set, ours
count; where a value makes no sense, the process says which and exits with 3.
"""


def page() -> str:
    """The reference as Markdown."""
    flags = {
        name: f"`{key}`{', from milliseconds' if name in MILLISECONDS else ''}"
        + (f"; at most {MOST_SECONDS[name]} s, with a notice" if name in MOST_SECONDS else "")
        + "."
        + (" Steps of each trainer; PaddlePaddle divided them by the number of trainers." if "geo" in name else "")
        for name, key in LIVE.items()
    }
    return (
        _HEAD
        + _table("Ours", "meaning", OURS | COLLECTIVE | SERVING | JOBS | INTERNAL)
        + _table("Of PaddlePaddle, used", "stands for", PADDLE)
        + _table(
            "Of pods of plain YAML",
            "meaning",
            PLAIN_YAML,
            intro="For `clickline k8s`, which finds out what the others above are to be.",
        )
        + _table(
            "Flags of PaddlePaddle's communicator, used",
            "sets",
            flags,
            intro="Stronger than the job file, weaker than `--set`.",
        )
        + _table(
            "Flags of PaddlePaddle's communicator, dead",
            "why",
            DEAD,
            intro="Reported once at the start when set, as is any other `FLAGS_communicator_…`, `FLAGS_rpc_…` or "
            "`FLAGS_geo_…`.",
        )
        + _table("Of PaddlePaddle, accepted without effect", "why", WITHOUT_EFFECT)
    )


def write(directory: Path) -> Path:
    """Write the page; gives back its path."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "environment.md"
    file.write_text(page(), encoding="utf-8")
    return file


def _table(title: str, column: str, rows: dict[str, str], *, intro: str = "") -> str:
    head = f"\n## {title}\n\n" + (f"{intro}\n\n" if intro else "") + f"| variable | {column} |\n|---|---|\n"
    return head + "".join(f"| `{name}` | {text} |\n" for name, text in rows.items())


if __name__ == "__main__":
    print(write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")))
