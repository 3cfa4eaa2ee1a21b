"""The custom resource definition, made from the typed fields: python -m clickline.operator.job.definition deploy/v1."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types
import yaml
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from clickline.operator.job.fields import JobFields, KubernetesObject
from clickline.operator.job.job_spec import Autoscaling, JobSpec, RoleSpec
from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import GROUP, KIND, PLURAL, VERSION

_HEAD = "# Made from the code by `make reference`; edit src/clickline/operator/job, not this file.\n"
_LONGEST_NAME = 52
"""Pods are called JOB-ROLE-INDEX, which is a host's name too, and those have 63 characters at most."""
_TYPES: dict[object, str] = {int: "integer", str: "string", bool: "boolean"}


def definition() -> KubernetesObject:
    """The CustomResourceDefinition of PaddleJob."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": "paddlejob",
                "shortNames": ["pdj"],
                "categories": ["all"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        _column("Status", "string", ".status.phase"),
                        _column("Mode", "string", ".status.mode"),
                        _column("Age", "date", ".metadata.creationTimestamp"),
                        _column("Progress", "integer", ".status.trainerStatus.progressPercentage") | {"priority": 1},
                        _column("Message", "string", ".status.message") | {"priority": 1},
                    ],
                    "schema": {"openAPIV3Schema": _job_schema()},
                }
            ],
        },
    }


def _job_schema() -> KubernetesObject:
    name = {"type": "string", "maxLength": _LONGEST_NAME, "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"}
    spec = _model(JobSpec)
    # A job without pods is a mistake, most likely of indentation.
    spec["anyOf"] = [{"required": [role]} for role in ("ps", "worker", "heter")]
    return {
        "type": "object",
        "description": "A training job: parameter servers and trainers, or trainers alone.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": spec,
            "status": _model(JobStatus),
        },
    }


def _column(name: str, kind: str, path: str) -> KubernetesObject:
    return {"name": name, "type": kind, "jsonPath": path}


def _model(model: type[JobFields]) -> KubernetesObject:
    properties = {to_camel(name): _field(model, name, info) for name, info in model.model_fields.items()}
    # Only of a spec: the status of an earlier release must stay readable.
    required = [to_camel(name) for name, info in model.model_fields.items() if info.is_required()]
    description = (model.__doc__ or "").strip()
    return {"type": "object", "description": description, "properties": properties} | (
        {"required": required} if required else {}
    )


def _field(model: type[JobFields], name: str, info: FieldInfo) -> KubernetesObject:
    schema = _template() if issubclass(model, RoleSpec) and name == "template" else _type(info.annotation)
    for limit in info.metadata:
        schema |= _limit(limit)
    if info.description:
        schema = {"description": info.description} | {k: v for k, v in schema.items() if k != "description"}
    if info.default not in (None, "", PydanticUndefined) and issubclass(model, (JobSpec, Autoscaling)):
        schema["default"] = info.default
    return schema


def _type(annotation: Any) -> KubernetesObject:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        described = next((one.description for one in inner[1:] if isinstance(one, FieldInfo)), None)
        return _type(inner[0]) | ({"description": described} if described else {})
    if origin in (Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        if set(kinds) == {int, str}:
            return {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
        (kind,) = kinds
        return _type(kind)
    if origin is Literal:
        return {"type": _TYPES[type(inner[0])], "enum": list(inner)}
    if origin is list:
        return {"type": "array", "items": _type(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type(inner[1])}
    if isinstance(annotation, type) and issubclass(annotation, JobFields):
        return _model(annotation)
    return {"type": _TYPES[annotation]}


def _limit(limit: object) -> KubernetesObject:
    if isinstance(limit, annotated_types.Ge):
        return {"minimum": limit.ge}
    if isinstance(limit, annotated_types.Le):
        return {"maximum": limit.le}
    if isinstance(limit, annotated_types.MaxLen):
        return {"maxLength": limit.max_length}
    return {}


def _template() -> KubernetesObject:
    """A PodTemplateSpec: what is needed of it. The whole of it has 8,000 lines, too many for `kubectl apply`."""
    container = {
        "type": "object",
        "required": ["name", "image"],
        "properties": {"name": {"type": "string"}, "image": {"type": "string", "minLength": 1}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    spec = {
        "type": "object",
        "required": ["containers"],
        "properties": {
            "containers": {"type": "array", "minItems": 1, "items": container},
            "restartPolicy": {"type": "string", "enum": ["Always", "OnFailure", "Never", ""]},
        },
        "x-kubernetes-preserve-unknown-fields": True,
    }
    metadata = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {"type": "object", "required": ["spec"], "properties": {"metadata": metadata, "spec": spec}}


def text() -> str:
    """deploy/v1/crd.yaml."""
    return _HEAD + yaml.safe_dump(definition(), sort_keys=False, width=120, allow_unicode=True)


def write(directory: Path) -> Path:
    """Write the definition; gives back its path."""
    file = directory / "crd.yaml"
    file.write_text(text(), encoding="utf-8")
    return file


if __name__ == "__main__":
    write(Path(sys.argv[1]))
