"""All objects of a suite, by the files that hold them: ElasticCTR's names, to be applied in this order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from clickline.deploy.objects.building_blocks import SuiteBuilder
from clickline.deploy.objects.cube_objects import cube_objects
from clickline.deploy.objects.network_policies import network_policy
from clickline.deploy.objects.serving_objects import (
    client_objects,
    file_server_objects,
    predictor_objects,
    transfer_objects,
)
from clickline.deploy.objects.suite_names import CLIENT, CUBE, FILE_SERVER, PREDICTOR, TRAINING, TRANSFER, SuiteNames
from clickline.deploy.objects.training_objects import training_objects
from clickline.deploy.training_plan import training_plan
from clickline.deploy.values import Values
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.operator.job.fields import KubernetesObject

FILES = {
    "fileserver.yaml": FILE_SERVER,
    "cube.yaml": CUBE,
    "paddleserving.yaml": PREDICTOR,
    "transfer.yaml": TRANSFER,
    "ctr.yaml": TRAINING,
    "paddleclient.yaml": CLIENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFeatures:
    """Kinds of objects that only newer clusters know."""

    disruption_budgets: bool = True
    """policy/v1, from 1.21 on."""
    autoscaling: bool = True
    """autoscaling/v2, from 1.23 on."""

    @classmethod
    def of(cls, client: ClusterClient) -> ClusterFeatures:
        return cls(
            disruption_budgets=client.has_kind("PodDisruptionBudget"),
            autoscaling=client.has_kind("HorizontalPodAutoscaler"),
        )


def suite_objects(
    values: Values, *, namespace: str, beside: Path, features: ClusterFeatures | None = None
) -> dict[str, list[KubernetesObject]]:
    """The objects of each file. `beside`: where the values' job file is. Raises JobError."""
    features = features or ClusterFeatures()
    names = SuiteNames(suite=values.name, namespace=namespace)
    build = SuiteBuilder(values, names)
    plan = training_plan(values, names, beside=beside)
    made: Mapping[str, list[KubernetesObject]] = {
        FILE_SERVER: file_server_objects(build),
        CUBE: cube_objects(build, disruption_budgets=features.disruption_budgets),
        PREDICTOR: predictor_objects(build, autoscaling=features.autoscaling),
        TRANSFER: transfer_objects(build),
        TRAINING: training_objects(build, plan),
        CLIENT: client_objects(build) if values.client else [],
    }
    policies = {part: [network_policy(build, part)] if values.network_policies else [] for part in made}
    return {file: made[part] + policies[part] for file, part in FILES.items() if made[part]}


def as_text(objects: list[KubernetesObject]) -> str:
    """As YAML that can be edited and applied by hand."""
    return str(yaml.safe_dump_all(objects, sort_keys=False, explicit_start=True))
