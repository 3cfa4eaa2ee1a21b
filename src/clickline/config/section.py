"""What every part of the job has in common: unknown keys are errors, values never change once read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator

ASCII_NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$"
"""Of names that become names of files on other machines."""


class Section(BaseModel):
    """A part of the job. Frozen: no code can change what the user wrote."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        validate_default=True,
        allow_inf_nan=False,
        # A job may hold a secret where none belongs; pydantic's own messages would repeat it.
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _keep_other_defaults(cls, given: Any) -> Any:
        """Let a key that is not given keep the default of its place, not of its type.

        `tables.linear` is FTRL by default: setting its learning rate alone must not make it Adagrad,
        which is what optimizers are elsewhere.
        """
        if not isinstance(given, Mapping):
            return given
        filled = dict(given)
        for name, field in cls.model_fields.items():
            if isinstance(field.default, Section) and isinstance(filled.get(name), Mapping):
                # exclude_unset: only what the default of this place sets itself; the type fills in the rest.
                filled[name] = _filled(filled[name], field.default.model_dump(exclude_unset=True))
        return filled


def _filled(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    result = dict(defaults)
    for key, value in given.items():
        below = defaults.get(key)
        result[key] = _filled(value, below) if isinstance(value, Mapping) and isinstance(below, Mapping) else value
    return result
