"""Processes of a job: strategy and counts, from a runner and the backend.yaml that it is submitted with."""

from __future__ import annotations

from clickline.compat.paddle_environment.communicator_flags import DEAD, LIVE, MILLISECONDS
from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.compat.paddlerec.reading.first_generation import RunnerSettings
from clickline.compat.paddlerec.translation.job_keys import JobKeys
from clickline.config.loading.origins import Path as Keys

_READ_UNDER = {
    "cluster.agree.merge": ("half_async",),
    "cluster.agree.send_queue": ("async",),
    "cluster.agree.dense_every": ("async", "half_async"),
}
ON_CPU = "models are computed on the CPU; with CLICKLINE_DEVICE=cuda, ranks of collective exchange by GPU"


def put_cluster(keys: JobKeys, runner: RunnerSettings, backend: Backend | None, at: Keys, *, threads: int) -> None:
    """Put strategy, counts and threads of a runner that trains."""
    if runner.device == "gpu":
        keys.tell((*at, "device"), ON_CPU)
    collective = runner.fleet_mode == "collective" or (runner.engine == "train" and runner.gpus > 1)
    phase: Keys = ("phase",)
    if runner.engine == "train" and not collective:
        keys.put("threads", threads, phase)
        return
    keys.put("cluster.threads", threads, phase)
    if collective:
        _put_collective(keys, runner, backend, at)
    else:
        _put_servers(keys, runner, backend, at)


def _put_collective(keys: JobKeys, runner: RunnerSettings, backend: Backend | None, at: Keys) -> None:
    trainers = max(runner.worker_num, runner.gpus)
    if backend is not None and runner.engine == "cluster_train":
        trainers = backend.submit.k8s_trainers * backend.submit.k8s_gpu_card
    elif runner.engine == "cluster_train":
        keys.tell((*at, "class"), f"{trainers} trainers: how many there are stands in backend.yaml (-b)")
    keys.put("strategy", "collective", (*at, "fleet_mode"))
    keys.put("cluster.trainers", trainers, (*at, "worker_num"))
    for name in ("distribute_strategy", "server_num"):
        if name in runner.model_fields_set:
            keys.tell((*at, name), "not carried: collective has no parameter servers")


def _put_servers(keys: JobKeys, runner: RunnerSettings, backend: Backend | None, at: Keys) -> None:
    strategy = runner.distribute_strategy
    if runner.fleet_mode == "pslib":
        keys.tell((*at, "fleet_mode"), "pslib is ps here: there is one kind of parameter server")
    servers, trainers = runner.server_num, runner.worker_num
    if backend is not None and runner.engine == "cluster_train":
        submit = backend.submit
        on_nodes = backend.cluster_type == "mpi"
        servers, trainers = (submit.nodes,) * 2 if on_nodes else (submit.k8s_ps_num, submit.k8s_trainers)
    elif runner.engine == "cluster_train":
        keys.tell(
            (*at, "class"), f"{servers} servers and {trainers} trainers: how many there are stands in backend.yaml (-b)"
        )
    keys.put("strategy", strategy, (*at, "distribute_strategy"))
    keys.put("cluster.pservers", servers, (*at, "server_num"))
    keys.put("cluster.trainers", trainers, (*at, "worker_num"))
    push_num = "train.strategy.mode.push_num"
    if strategy == "geo":
        keys.put("cluster.agree.geo_steps", runner.push_num, (*at, push_num))
    elif "push_num" in runner.model_fields_set:
        keys.tell((*at, push_num), f"not carried: geo reads it, and this is {strategy}")
    if backend is not None:
        _put_flags(keys, backend, strategy, at)


def _put_flags(keys: JobKeys, backend: Backend, strategy: str, at: Keys) -> None:
    for name, value in backend.config.communicator.given.items():
        key = LIVE.get(name)
        if key is None:
            if value:
                keys.tell(at, f"{name} of backend.yaml is not carried: {DEAD.get(name, 'it is not known here')}")
        elif strategy not in _READ_UNDER.get(key, (strategy,)):
            keys.tell(at, f"{name} of backend.yaml is not carried: {strategy} does not read it")
        else:
            keys.put(key, value / 1000 if name in MILLISECONDS else value, at)
