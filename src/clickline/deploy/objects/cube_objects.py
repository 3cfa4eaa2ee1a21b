"""The cube: for each shard a StatefulSet of replicas, each a server with its agent beside it.

A StatefulSet for each shard, not one for all: replicas of one shard must be on different nodes and must not be evicted
together, while replicas of different shards may.
"""

from __future__ import annotations

from clickline.deploy.objects.building_blocks import STARTUP_LOOKS, PodParts, SuiteBuilder, http_probe, spread
from clickline.deploy.objects.suite_names import AGENT_PORT, CUBE, CUBE_HTTP_PORT, CUBE_PORT, SHARD_LABEL
from clickline.operator.job.fields import KubernetesObject

_DIRECTORY = "/cube"


def cube_objects(build: SuiteBuilder, *, disruption_budgets: bool) -> list[KubernetesObject]:
    """All shards."""
    objects: list[KubernetesObject] = []
    for shard in range(build.values.cube.shards):
        objects += _shard_objects(build, shard)
        if disruption_budgets:
            objects.append(_disruption_budget(build, shard))
    return objects


def _shard_objects(build: SuiteBuilder, shard: int) -> list[KubernetesObject]:
    values, name = build.values.cube, build.names.cube_shard(shard)
    labels = {SHARD_LABEL: str(shard)}
    selector = {**build.names.selector(CUBE), **labels}
    spec: KubernetesObject = {
        "serviceName": name,
        "replicas": values.replicas,
        # A server is ready when it has a version, which transfer brings to all of them together: none can be first.
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector},
        "template": build.template(CUBE, _pod(build, shard, selector), **labels),
    }
    if values.storage:
        claim = {"metadata": {"name": "rows"}, "spec": build.claim_spec(values.storage, "ReadWriteOnce")}
        claim["metadata"]["labels"] = build.names.labels(CUBE, **labels)
        spec["volumeClaimTemplates"] = [claim]
    ports = {"wire": CUBE_PORT, "http": CUBE_HTTP_PORT, "agent": AGENT_PORT}
    # Transfer must reach servers that have nothing yet, and are not ready therefore.
    service = build.service(name, CUBE, ports, selector=selector, clusterIP="None", publishNotReadyAddresses=True)
    return [service, build.body("apps/v1", "StatefulSet", name, CUBE, {"spec": spec}, **labels)]


def _pod(build: SuiteBuilder, shard: int, selector: dict[str, str]) -> PodParts:
    values, description = build.values.cube, build.values.description
    command = description.cube_server(
        _DIRECTORY, shard=shard, listen=f"tcp:0.0.0.0:{CUBE_PORT}", http=f"0.0.0.0:{CUBE_HTTP_PORT}"
    )
    agent_command = description.agent(_DIRECTORY, cube=f"tcp:127.0.0.1:{CUBE_PORT}", listen=f"0.0.0.0:{AGENT_PORT}")
    server = build.container(
        "server",
        ["clickline", *command],
        values,
        ports={"wire": CUBE_PORT, "http": CUBE_HTTP_PORT},
        mounts={"rows": _DIRECTORY},
        # /health is 503 as long as there is no version: not ready, and nothing that a restart would mend.
        probes={
            "startupProbe": http_probe("/metrics", CUBE_HTTP_PORT, every=2, failures=STARTUP_LOOKS),
            "livenessProbe": http_probe("/metrics", CUBE_HTTP_PORT, every=20),
            "readinessProbe": http_probe("/health", CUBE_HTTP_PORT, every=2),
        },
    )
    agent = build.container(
        "agent",
        ["clickline", *agent_command],
        values.agent,
        ports={"agent": AGENT_PORT},
        mounts={"rows": _DIRECTORY},
        probes={
            "startupProbe": http_probe("/agent/status", AGENT_PORT, every=2, failures=STARTUP_LOOKS),
            "livenessProbe": http_probe("/agent/status", AGENT_PORT, every=20),
        },
    )
    # Preferred: a cluster with fewer nodes than replicas has all of them all the same.
    apart = {
        "weight": 100,
        "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": selector}},
    }
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [apart]}}
    own: list[KubernetesObject] = [] if values.storage else [{"name": "rows", "emptyDir": {}}]
    return PodParts(containers=[server, agent], volumes=own, more={"affinity": affinity, **spread(selector)})


def _disruption_budget(build: SuiteBuilder, shard: int) -> KubernetesObject:
    """One replica of a shard at a time, when nodes are drained; a shard of one replica is moved all the same."""
    labels = {SHARD_LABEL: str(shard)}
    selector = {"matchLabels": {**build.names.selector(CUBE), **labels}}
    spec = {"maxUnavailable": 1, "selector": selector}
    return build.body("policy/v1", "PodDisruptionBudget", build.names.cube_shard(shard), CUBE, {"spec": spec}, **labels)
