"""Training on Kubernetes: what its pods are made of (clickline train --on kubernetes)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from clickline.config import durations
from clickline.config.section import Section

NAME_PATTERN = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"
"""Of an object of Kubernetes."""
QUANTITY_PATTERN = r"^([0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?)?$"
VARIABLE_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*$"
OPTIONAL_NAME_PATTERN = NAME_PATTERN.replace("^", "^(?:").replace("$", ")?$")
PATH_PATTERN, KEY_PATTERN, IMAGE_PATTERN = r"^/", r"^[-._a-zA-Z0-9]+$", r"^\S*$"
_Name = Annotated[str, Field(max_length=253, pattern=NAME_PATTERN)]
_NameOrNone = Annotated[str, Field(max_length=253, pattern=OPTIONAL_NAME_PATTERN)]
_Quantity = Annotated[str, Field(max_length=30, pattern=QUANTITY_PATTERN)]
_Seconds = Annotated[int, Field(ge=0, le=10**9)]


def _as_text(value: object) -> object:
    """4 is a quantity too."""
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else value


Quantity = Annotated[_Quantity, BeforeValidator(_as_text)]


class PodResources(Section):
    cpu: Quantity = ""
    """CPUs that are reserved for each pod, such as 2 or 500m. Empty = none."""
    memory: Quantity = ""
    """Memory that is reserved for each pod and that it must not exceed, such as 8Gi. Empty = none, and no limit."""
    gpus: Annotated[int, Field(ge=0, le=64)] = 0
    """GPUs of NVIDIA for each pod."""


class VolumeMount(Section):
    claim: _Name
    """A PersistentVolumeClaim that is there already."""
    path: Annotated[str, Field(min_length=2, max_length=1024, pattern=PATH_PATTERN)]
    """Where pods have it."""
    read_only: bool = False
    """Whether pods may only read it."""


class SecretVariable(Section):
    variable: Annotated[str, Field(max_length=255, pattern=VARIABLE_PATTERN)]
    """Environment variable of all containers, such as AWS_SECRET_ACCESS_KEY."""
    secret: _Name
    """A Secret that is there already."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=KEY_PATTERN)]
    """Its entry."""


class KubernetesPods(Section):
    namespace: _NameOrNone = ""
    """Namespace of the job. Empty = that of the kubeconfig's context."""
    image: Annotated[str, Field(max_length=1024, pattern=IMAGE_PATTERN)] = ""
    """Image of the containers, which has Clickline in it: `clickline image` says how to build one."""
    pull_secret: _NameOrNone = ""
    """Secret by which the image is pulled."""
    service_account: _NameOrNone = ""
    """Account that pods run as."""
    pserver: PodResources = PodResources()
    """Resources of each parameter server's pod."""
    trainer: PodResources = PodResources()
    """Resources of each trainer's pod."""
    volumes: list[VolumeMount] = []
    """Volumes for data, and for the run if `output` is in one."""
    environment: dict[Annotated[str, Field(pattern=VARIABLE_PATTERN)], str] = {}
    """Environment variables of all containers; secrets are not for here."""
    secrets: list[SecretVariable] = []
    """Environment variables from Secrets."""
    intranet: Literal["PodIP", "Service", "Host"] = "PodIP"
    """How pods reach each other; Service keeps a server's address when its pod is replaced, and needs the cluster's
    DNS."""
    queue: _NameOrNone = ""
    """Queue of Volcano."""
    kueue_queue: _NameOrNone = ""
    """Queue of Kueue."""
    priority_class: _NameOrNone = ""
    """PriorityClass of the pods."""
    keep: Annotated[_Seconds, BeforeValidator(durations.seconds, json_schema_input_type=_Seconds | durations.Text)] = (
        86_400
    )
    """How long the finished job is kept in the cluster, with the logs of its pods."""
