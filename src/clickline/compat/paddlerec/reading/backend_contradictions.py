"""Contradictions between backend.yaml and the config.yaml that is submitted with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from clickline.config.loading.cross_checks import Contradiction

_CLUSTER = "cluster_train"


def backend_contradictions(backend: Mapping[str, Any], config: Mapping[str, Any]) -> Iterator[Contradiction]:
    """All of them, by the key of backend.yaml. Both are as they are given: they may lack anything."""
    cluster = str(backend.get("cluster_type", "")).lower()
    runners = config.get("runner")
    for runner in runners if isinstance(runners, list) else ():
        if not isinstance(runner, Mapping) or str(runner.get("class", "")).lower() != _CLUSTER:
            continue
        name, device = runner.get("name"), str(runner.get("device", "cpu")).lower()
        if cluster == "mpi" and device == "gpu":
            message = f"mpi nodes have no GPU, but the runner {name!r} of config.yaml has device: gpu; set k8s, or cpu"
            yield ("cluster_type",), message
        elif cluster == "mpi" and str(runner.get("fleet_mode", "ps")).lower() == "collective":
            yield ("cluster_type",), f"mpi has parameter servers, but the runner {name!r} is collective; set k8s"
