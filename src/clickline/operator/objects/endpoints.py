"""The environment that all pods of a job share: who is where. PaddlePaddle's variables, torchrun's and ours.

It is a ConfigMap of its own for each revision of the set of pods: a pod starts when the endpoints of its own revision
are published, and never with those of pods that are gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import BLOCK_PORTS, PaddleJob
from clickline.operator.objects.names import endpoints_name, metadata

COORDINATOR_OFFSET, GLOO_OFFSET, MASTER_OFFSET = 17, 18, 19
"""Ports inside of a pod's block: of pserver 0's coordinator, of Gloo's rendezvous, of torch.distributed's store."""


def endpoints(job: PaddleJob, hosts: Mapping[str, str]) -> dict[str, str]:
    """The variables, by the host of each pod."""
    names = job.pod_names()
    servers, workers, heter = names.get("ps", []), names.get("worker", []), names.get("heter", [])

    def at(pods: list[str]) -> str:
        return ",".join(f"{_bracketed(hosts[pod])}:{job.port_of(pod)}" for pod in pods)

    env = {"TRAINER_PORTS_NUM": str(BLOCK_PORTS)}
    if job.spec.intranet != "Host":  # there each pod has a port of its own, which is in the pod
        env["PADDLE_PORT"] = str(job.port_of(""))
    if servers:
        env["PADDLE_PSERVERS_IP_PORT_LIST"] = at(servers)
        env["CLICKLINE_PSERVERS"] = ",".join(f"tcp:{address}" for address in at(servers).split(","))
        env["CLICKLINE_COORDINATOR_PORT"] = str(job.port_of(servers[0]) + COORDINATOR_OFFSET)
    if heter:
        env["PADDLE_HETER_ENDPOINTS"] = at(heter)
    if workers:
        env["CLICKLINE_TRAINERS"] = str(len(workers))
    if workers and not job.elastic_collective:
        env["PADDLE_TRAINER_ENDPOINTS"] = at(workers)
        env["PADDLE_TRAINERS"] = ",".join(hosts[pod] for pod in workers)
        env["PADDLE_TRAINERS_NUM"] = str(len(workers))
    if job.spec.with_gloo and servers:
        env["PADDLE_WITH_GLOO"] = str(job.spec.with_gloo)
        env["PADDLE_GLOO_RENDEZVOUS"] = "3"
        port = job.port_of(servers[0]) + GLOO_OFFSET
        env["PADDLE_GLOO_HTTP_ENDPOINT"] = f"{_bracketed(hosts[servers[0]])}:{port}"
    if job.spec.mode == "Collective":
        env["MASTER_ADDR"] = hosts[workers[0]]
        env["MASTER_PORT"] = str(job.port_of(workers[0]) + MASTER_OFFSET)
        env["WORLD_SIZE"] = str(len(workers))
    return env


def endpoints_map(job: PaddleJob, revision: int, hosts: Mapping[str, str]) -> KubernetesObject:
    """The ConfigMap of a revision."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(job, endpoints_name(job, revision)),
        "data": endpoints(job, hosts),
    }


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
