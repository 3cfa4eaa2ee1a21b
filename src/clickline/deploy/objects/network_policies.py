"""Who may connect to which part: the parts that need it, and for the predictor everybody, who must show the token.

Policies are of connections that come in. The kubelet's probes are always let in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clickline.deploy.objects.building_blocks import SuiteBuilder
from clickline.deploy.objects.suite_names import (
    AGENT_PORT,
    CLIENT,
    CUBE,
    CUBE_PORT,
    FILE_PORT,
    FILE_SERVER,
    PREDICTOR,
    PREDICTOR_PORT,
    TRAINING,
    TRANSFER,
    TRANSFER_PORT,
)
from clickline.operator.job.fields import KubernetesObject

_ANYBODY = "*"
_ALLOWED: Mapping[str, Mapping[int, Sequence[str]]] = {
    FILE_SERVER: {FILE_PORT: (TRANSFER, PREDICTOR)},
    TRANSFER: {TRANSFER_PORT: (CUBE,)},  # agents download from it
    CUBE: {CUBE_PORT: (PREDICTOR,), AGENT_PORT: (TRANSFER,)},
    PREDICTOR: {PREDICTOR_PORT: (_ANYBODY,)},
    TRAINING: {},
    CLIENT: {},
}


def network_policy(build: SuiteBuilder, part: str) -> KubernetesObject:
    """The policy of one part."""
    names = build.names
    rules: list[KubernetesObject] = []
    for port, parts in _ALLOWED[part].items():
        rule: KubernetesObject = {"ports": [{"protocol": "TCP", "port": port}]}
        if _ANYBODY not in parts:
            rule["from"] = [{"podSelector": {"matchLabels": names.selector(each)}} for each in parts]
        rules.append(rule)
    spec = {"podSelector": {"matchLabels": names.selector(part)}, "policyTypes": ["Ingress"], "ingress": rules}
    return build.body("networking.k8s.io/v1", "NetworkPolicy", names.of(part), part, {"spec": spec})
