"""The values of a deployed suite: a YAML file, read and checked as a job is. Unknown keys are errors with a suggestion.

    name: ctr
    data: {source: demo}
    training: {pservers: 2, trainers: 2}
    cube: {shards: 2, replicas: 2}

No secret is in it: Secrets are named, and pods refer to them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Annotated, Any, Literal

from pydantic import Field

from clickline.config.kubernetes import (
    IMAGE_PATTERN,
    OPTIONAL_NAME_PATTERN,
    Quantity,
    SecretVariable,
    VolumeMount,
)
from clickline.config.loading.cross_checks import Contradiction, CrossChecked, mapping_at, text_at
from clickline.config.loading.reader import checked_settings, read_settings
from clickline.config.section import Section
from clickline.launch.suite_description import MODEL, REPLICAS, SHARDS, WORKERS, SuiteDescription

DEMO = "demo"
HOUR_FORM = "%Y%m%d/%H"
"""Of the ends of a window, as ElasticCTR writes them."""
_HOUR = r"^[0-9]{8}/[0-9]{2}$"
Name = Annotated[str, Field(max_length=40, pattern=r"^[a-z]([a-z0-9-]*[a-z0-9])?$")]
NameOrNone = Annotated[str, Field(max_length=253, pattern=OPTIONAL_NAME_PATTERN)]
Count = Annotated[int, Field(ge=1, le=4096)]


class PartResources(Section):
    """What each pod of a part gets."""

    cpu: Quantity = "500m"
    """CPUs that are reserved for each pod, such as 2 or 500m."""
    memory: Quantity = "1Gi"
    """Memory that is reserved for each pod and that it must not exceed."""


class DataValues(Section):
    source: Literal["demo", "paths"] = "demo"
    """`demo` makes a log in the raw Criteo format in the suite's volume; `paths` reads what `train` names."""
    rows: Annotated[int, Field(ge=1000, le=10**9)] = 250_000
    """Rows of the demo's log, over all hours."""
    train: list[str] = []
    """Paths in volumes or URLs (s3://, hdfs://, …); %Y, %m, %d and %H in them stand for the hour, where there is a
    window."""
    test: list[str] = []
    """The same for test data."""
    start: Annotated[str, Field(pattern=_HOUR)] | Literal[""] = ""
    """First hour of a window, YYYYmmdd/HH: each hour is trained from the weights of the one before, and published.
    Empty: all data is trained at once."""
    end: Annotated[str, Field(pattern=_HOUR)] | Literal[""] = ""
    """Last hour of the window."""
    done: str = ""
    """A path or URL like those of `train` whose existence says that an hour's data is complete; training waits for it.
    Empty: the data is there."""


class TrainingValues(Section):
    pservers: Annotated[int, Field(ge=0, le=4096)] = 2
    """Parameter servers; 0 with one trainer trains in one process."""
    trainers: Count = 2
    """Trainers that read the data and compute gradients."""
    pserver: PartResources = PartResources()
    """Resources of each parameter server's pod."""
    trainer: PartResources = PartResources()
    """Resources of each trainer's pod."""
    publisher: PartResources = PartResources()
    """Resources of the pod that leads training and publishes."""
    queue: NameOrNone = ""
    """Queue of Volcano: all pods of an hour start together or not at all."""
    kueue_queue: NameOrNone = ""
    """Queue of Kueue."""
    priority_class: NameOrNone = ""
    """PriorityClass of the pods."""
    volumes: list[VolumeMount] = []
    """Claims with data that training reads."""
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    """Environment variables of training's pods; secrets are not for here."""
    secrets: list[SecretVariable] = []
    """Environment variables from Secrets, such as those of an object store or HDFS_UGI."""


class CubeValues(PartResources):
    shards: Count = SHARDS
    """Parts into which the rows are divided."""
    replicas: Annotated[int, Field(ge=1, le=100)] = REPLICAS
    """Servers of each shard."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Versions that stay loaded."""
    in_memory: bool = False
    """Read rows into memory instead of mapping files."""
    agent: PartResources = PartResources(cpu="100m", memory="512Mi")
    """Resources of the agent beside each server."""
    storage: Quantity = "10Gi"
    """Size of each server's claim; empty: a directory of its node that is gone with the pod."""


class PredictorValues(PartResources):
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    """Pods; where they are autoscaled, the fewest."""
    max_replicas: Annotated[int, Field(ge=0, le=1000)] = 0
    """The most, by load; 0: no autoscaling."""
    target_cpu: Annotated[int, Field(ge=1, le=100)] = 70
    """Percent of the reserved CPUs at which more pods are started."""
    workers: Annotated[int, Field(ge=1, le=1024)] = WORKERS
    """Processes of each pod."""
    service: Literal["ClusterIP", "NodePort", "LoadBalancer"] = "ClusterIP"
    """How the predictor is reached from outside the cluster; ClusterIP: not at all."""
    tls_secret: NameOrNone = ""
    """Secret of type kubernetes.io/tls, with which the predictor serves HTTPS; a ca.crt in it is what clients trust."""


class TransferValues(PartResources):
    interval: Annotated[float, Field(gt=0, le=86_400)] = 2.0
    """Seconds between looks for a new version."""
    wait: Annotated[float, Field(ge=0, le=86_400)] = 30.0
    """Seconds that a rollout waits for a server that is dead or fails."""
    storage: Quantity = "10Gi"
    """Size of the claim for builds; empty: a directory of the node."""


class StorageValues(Section):
    storage_class: NameOrNone = ""
    """StorageClass of all claims; empty: the cluster's default."""
    size: Quantity = "50Gi"
    """Size of the suite's claim: demo data, runs, versions."""
    access: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    """ReadWriteOnce only where all of training and the file server run on one node."""
    claim: NameOrNone = ""
    """A claim that is there already, in place of one that is made."""


class Values(CrossChecked):
    """All values of a suite."""

    name: Name = "ctr"
    """Name of the suite, with which the names of its objects begin."""
    namespace: NameOrNone = ""
    """Where it is made; empty: the namespace of the kubeconfig's context."""
    image: Annotated[str, Field(max_length=1024, pattern=IMAGE_PATTERN)] = ""
    """Image of all containers; empty: clickline: and this version."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """When nodes fetch the image."""
    pull_secret: NameOrNone = ""
    """Secret by which the image is pulled."""
    token_secret: NameOrNone = ""
    """Secret with the entry `token`, which all parts show each other and clients show the predictor; empty: NAME-token,
    which `clickline deploy` makes if it is not there."""
    job: str = ""
    """Job file, from the directory of this one: model, features, optimizer. Empty: the demo's."""
    model: str = ""
    """Name of the model in place of the job's, such as deepfm."""
    served_model: Annotated[str, Field(max_length=128, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")] = MODEL
    """Name that clients ask for, and of the cube's dictionary."""
    data: DataValues = DataValues()
    """What is trained."""
    training: TrainingValues = TrainingValues()
    """Training, a PaddleJob for each hour."""
    file_server: PartResources = PartResources(cpu="100m", memory="512Mi")
    """Resources of the file server."""
    transfer: TransferValues = TransferValues(cpu="200m")
    """The delivery."""
    cube: CubeValues = CubeValues()
    """Servers of rows, each with an agent beside it."""
    predictor: PredictorValues = PredictorValues()
    """The prediction service."""
    storage: StorageValues = StorageValues()
    """Where everything is kept."""
    network_policies: bool = True
    """Whether pods take connections from the parts alone that need them."""
    client: bool = True
    """Whether there is a client pod, which asks for a prediction."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        data = mapping_at(given, "data")
        start, end = text_at(data, "start") or "", text_at(data, "end") or ""
        # As texts: years, months, days and hours have fixed widths, so that their order is that of time.
        if bool(start) != bool(end):
            yield ("data", "end" if start else "start"), "a window has a first and a last hour: give both, or neither"
        elif start > end:
            yield ("data", "end"), f"{end!r} is before data.start, {start!r}"
        if text_at(data, "source") == "paths" and not data.get("train"):
            yield ("data", "train"), "source: paths needs the paths or URLs of the data"
        if data.get("train") and text_at(data, "source") in (None, DEMO):
            yield ("data", "source"), "paths are given and the demo would make its own data; use source: paths"
        predictor = mapping_at(given, "predictor")
        most, fewest = predictor.get("max_replicas", 0), predictor.get("replicas", 1)
        if isinstance(most, int) and isinstance(fewest, int) and 0 < most < fewest:
            yield ("predictor", "max_replicas"), f"{most} is less than predictor.replicas, {fewest}"

    @property
    def image_of_containers(self) -> str:
        return self.image or f"clickline:{version('clickline')}"

    @property
    def description(self) -> SuiteDescription:
        """The suite, as `clickline up` has it too."""
        return SuiteDescription(
            model=self.served_model,
            shards=self.cube.shards,
            replicas=self.cube.replicas,
            workers=self.predictor.workers,
            keep=self.cube.keep,
            interval=self.transfer.interval,
            wait=self.transfer.wait,
            memory=self.cube.in_memory,
        )


def read_values(path: str | os.PathLike[str] | None) -> Values:
    """Read a file, or take the defaults. Raises JobError with all mistakes in it, by key and line."""
    if path is None:
        return checked_settings({}, Values, source="values")
    return read_settings(path, Values, what="a suite's values")
