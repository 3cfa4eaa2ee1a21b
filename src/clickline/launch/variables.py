"""Every environment variable of the contract, ours and PaddlePaddle's: what is used, and what has no effect and why.

docs/reference/environment.md is made from it: python -m clickline.launch.variables docs/reference
"""

from __future__ import annotations

import sys
from pathlib import Path

from clickline.compat.paddle_environment.communicator_flags import DEAD, LIVE, MILLISECONDS

OURS = {
    "CLICKLINE_ROLE": "pserver, trainer or coordinator. The verb says it too; they must not contradict each other.",
    "CLICKLINE_RANK": "Which of its role this process is, from 0.",
    "CLICKLINE_PSERVERS": "Addresses of all parameter servers by rank, with commas between: `tcp:HOST:PORT` or "
    "`unix:/PATH`, an IPv6 host in brackets.",
    "CLICKLINE_TRAINERS": "Trainers that the job starts with; `cluster.trainers` if not set.",
    "CLICKLINE_COORDINATOR": "The coordinator's address. If not set, pserver 0 is the coordinator too, on its host and "
    "its port + 1000, or on its socket's path + `.coordinator`.",
    "CLICKLINE_BIND": "Address or host alone to listen on, where it differs from the one that others are told.",
    "CLICKLINE_TOKEN": "The same secret text for all processes of a job, at least 16 characters. Required.",
    "CLICKLINE_TOKEN_FILE": "A file that holds the token, where CLICKLINE_TOKEN is not set.",
    "CLICKLINE_DIRECTORY": "The run's directory; `output`/`name` of the job if not set.",
    "CLICKLINE_THREADS": "Threads for dense maths.",
    "CLICKLINE_METRICS": "HOST:PORT, or PORT of the loopback address, where this one process answers `/metrics`, "
    "`/health` and, if it knows the run, `/status`; stronger than `cluster.metrics…`. `clickline train` keeps it for "
    "itself, or gives it to rank 0.",
}
COLLECTIVE = {
    "CLICKLINE_DEVICE": "`cpu` (if not set) or `cuda`, for ranks of `strategy: collective`: with `cuda` they exchange "
    "rows and gradients by NCCL, provided that every rank has a GPU of its own, else by Gloo. Models are computed on "
    "the CPU either way.",
}
SERVING = {
    "CLICKLINE_CACHE": "Directory for copies of versions that `clickline serve` reads from a store elsewhere, shared "
    "by all predictors of this machine and user; `~/.cache/clickline/versions` if not set.",
}
INTERNAL = {
    "CLICKLINE_LAUNCHER": "Set by `clickline train` for what it starts: the process to die with.",
    "CLICKLINE_RUN_LOCK": "The same, for ranks: that the launcher holds the run's directory for rank 0.",
    "CLICKLINE_HEARTBEAT": "Set by `clickline up` and `clickline serve` for what they start: the descriptor of memory "
    "in which it counts that its loop turns.",
    "CLICKLINE_LISTENER": "Set by `clickline up` for the predictor: the descriptor of the socket that it serves.",
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
    "PADDLE_JOB_NAME": "the job's `name` is what processes compare; it was a label for finding pods",
    "PADDLE_IS_LOCAL": "cluster.pservers and the verb say it",
    "PADDLE_INIT_NICS": "CLICKLINE_BIND says where to listen",
    "ENTRY": "the command to run is the container's",
    "TRAINER_PACKAGE": "PYTHONPATH says where modules are",
    "GLOG_v": "logs have one level",
    "GLOG_logtostderr": "logs always go to stderr",
    "POD_NAME": "processes go by role and rank",
    "NAMESPACE": "the cluster is not asked for anything",
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
        name: f"`{key}`{', from milliseconds' if name in MILLISECONDS else ''}."
        + (" Steps of each trainer; PaddlePaddle divided them by the number of trainers." if "geo" in name else "")
        for name, key in LIVE.items()
    }
    return (
        _HEAD
        + _table("Ours", "meaning", OURS | COLLECTIVE | SERVING | INTERNAL)
        + _table("Of PaddlePaddle, used", "stands for", PADDLE)
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
