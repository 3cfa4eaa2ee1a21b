"""Settings whose values must also fit each other, such as a split that names a model.

Pydantic runs such checks only after every value is right by itself, so a file would be mended in two rounds. Here they
are run on the values as given, whatever else is wrong with them, and reported together with the rest, by key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Self

from pydantic import ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

from clickline.config.loading.origins import Path
from clickline.config.section import Section

Contradiction = tuple[Path, str]
"""Where it is, and what is wrong."""


class CrossChecked(Section):
    """A section with contradictions to look for."""

    @classmethod
    @abstractmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        """What does not fit. `given` is unchecked: it may lack anything, and hold values of any type."""

    @model_validator(mode="wrap")
    @classmethod
    def _check_together(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        # On the values as given: the handler returns nothing if one of them is invalid, and both kinds belong together.
        found = list(cls.contradictions(_plain(given))) if isinstance(given, Mapping) else []
        errors = [InitErrorDetails(type=_custom("contradiction", text), loc=path, input=None) for path, text in found]
        try:
            made = handler(given)
        except ValidationError as error:
            errors = [_repeated(dict(one)) for one in error.errors(include_url=False)] + errors
        if errors:
            # The section's config does not apply to an error made here: it would repeat values, even secret ones.
            raise ValidationError.from_exception_data(cls.__name__, errors, hide_input=True)
        return made


def mapping_at(given: Any, key: str) -> Mapping[str, Any]:
    """The mapping below a key of something unchecked; an empty one if there is none."""
    found = given.get(key) if isinstance(given, Mapping) else None
    return {str(name): value for name, value in found.items()} if isinstance(found, Mapping) else {}


def text_at(given: Any, key: str) -> str | None:
    """The text below a key of something unchecked, unless it is empty."""
    found = given.get(key) if isinstance(given, Mapping) else None
    return found if isinstance(found, str) and found else None


def _plain(given: Any) -> Any:
    if isinstance(given, Section):
        return given.model_dump()
    if isinstance(given, Mapping):
        return {name: _plain(value) for name, value in given.items()}
    return [_plain(one) for one in given] if isinstance(given, list) else given


def _repeated(finding: Mapping[str, Any]) -> InitErrorDetails:
    """A finding of pydantic's, to be raised once more."""
    place, given = finding["loc"], finding["input"]
    try:
        # Made only to see whether pydantic knows the kind: an unknown one must be raised as a custom error.
        PydanticKnownError(finding["type"], finding.get("ctx"))
    except KeyError:  # not one of pydantic's own kinds, but made by a validator
        return InitErrorDetails(type=_custom(finding["type"], finding["msg"]), loc=place, input=given)
    return InitErrorDetails(type=finding["type"], loc=place, input=given, ctx=finding.get("ctx", {}))


def _custom(kind: Any, text: str) -> PydanticCustomError:
    # The text goes in as a value: as a template, pydantic would take braces in it, as of ${env:NAME}, for placeholders.
    return PydanticCustomError(kind, "{text}", {"text": text})
