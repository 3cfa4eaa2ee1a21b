"""Base of the typed fields of a PaddleJob: snake_case here, camelCase in Kubernetes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

KubernetesObject = dict[str, Any]
"""An object, or a part of one, as the API server has it."""


class JobFields(BaseModel):
    """A part of a PaddleJob. Fields that are not known here are ignored: the API server has checked the object."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)

    def to_object(self) -> KubernetesObject:
        """As Kubernetes has it: without what is not set, or empty."""
        plain: KubernetesObject = _without_empty(self.model_dump(mode="json", by_alias=True, exclude_none=True))
        return plain


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_empty(inner) for key, inner in value.items() if inner != ""}
    return [_without_empty(inner) for inner in value] if isinstance(value, list) else value
