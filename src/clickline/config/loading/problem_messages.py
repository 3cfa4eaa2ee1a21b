"""Messages about wrong values: pydantic's findings as sentences that name what was given and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from clickline.config import data, durations, features, hosts, job, kubernetes, metric_settings, training
from clickline.config.loading.key_paths import fields_by_key, places_of, section_at
from clickline.config.loading.origins import Origins, Path, key_text
from clickline.config.loading.suggestions import closest, suggestion
from clickline.config.loading.synonyms import synonym
from clickline.config.section import ASCII_NAME_PATTERN, Section
from clickline.errors import JobProblem

PATTERNS = {
    durations.PATTERN: "a number of seconds or a duration such as 30s, 15m, 12h or 7d",
    kubernetes.NAME_PATTERN: "a name of Kubernetes: lower-case letters, digits, - and .",
    kubernetes.OPTIONAL_NAME_PATTERN: "a name of Kubernetes: lower-case letters, digits, - and .",
    kubernetes.QUANTITY_PATTERN: "a quantity of Kubernetes, such as 2, 500m or 4Gi",
    kubernetes.VARIABLE_PATTERN: "a name of a variable: letters, digits and _, not a digit first",
    kubernetes.PATH_PATTERN: "an absolute path",
    kubernetes.KEY_PATTERN: "a key of a Secret: letters, digits, - _ and .",
    kubernetes.IMAGE_PATTERN: "the name of an image, which has no spaces",
    training.FROZEN_PATTERN: "the name of a part of the model, or a pattern of names such as tower.*",
    hosts.DESTINATION_PATTERN: "[USER@]HOST, where HOST is a name or an address",
    hosts.ADDRESS_PATTERN: "a name or an address",
    job.NAME_PATTERN: "a name of letters, digits, _ . and - that starts with a letter, digit or _",
    features.NAME_PATTERN: "a name without spaces and colons",
    metric_settings.FUNCTION_PATTERN: "module:function or path/to/file.py:function",
    ASCII_NAME_PATTERN: "a name of ASCII letters, digits, _ . and - that starts with a letter, digit or _",
}
_KINDS = {
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
}
_SENTENCES: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = {
    "greater_than_equal": lambda shown, context: f"{shown} is too small; must be at least {_bound(context['ge'])}",
    "greater_than": lambda shown, context: f"{shown} is too small; must be more than {_bound(context['gt'])}",
    "less_than_equal": lambda shown, context: f"{shown} is too large; must be at most {_bound(context['le'])}",
    "less_than": lambda shown, context: f"{shown} is too large; must be less than {_bound(context['lt'])}",
    "finite_number": lambda shown, _: f"{shown} is not a finite number",
    "missing": lambda _, __: "missing; it has no default",
    "string_too_short": lambda shown, _: f"{shown} is empty; it must not be",
    "string_too_long": lambda shown, context: f"{shown} is longer than {context['max_length']}",
    "too_short": lambda _, context: f"{context['actual_length']} elements; must have at least {context['min_length']}",
    "too_long": lambda _, context: f"{context['actual_length']} elements; must have at most {context['max_length']}",
}
_SHORT = 40
"""Characters of a value that a hint repeats."""
# Their values may be secrets, which no message repeats.
_CONCEALED = (("data", "storage"), ("data", "reader"))


def problem_of(finding: Mapping[str, Any], origins: Origins, root: type[Section] = job.Job) -> JobProblem:
    """One of pydantic's findings (an element of `ValidationError.errors()`) as a problem of the job, or of `root`."""
    path: Path = finding["loc"]
    line, override = origins.nearest(path)
    return JobProblem(key_text(path), _sentence(finding, path, root), line, override=override)


def _sentence(finding: Mapping[str, Any], path: Path, root: type[Section]) -> str:
    kind, given, context = finding["type"], finding.get("input"), finding.get("ctx", {})
    shown = "what is given" if path[:2] in _CONCEALED else show(given)
    if kind == "extra_forbidden":
        return _unknown_key(path, root)
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"{shown} is not one of {', '.join(choices)}{_meant(given, choices)}"
    if kind == "string_pattern_mismatch":
        if context["pattern"] == data.FORMAT_PATTERN:
            known = ", ".join(data.FORMATS)
            return f"{shown} is not one of {known}, or module:Class{_meant(given, data.FORMATS)}"
        pattern = context["pattern"]
        return f"{shown} is not {PATTERNS.get(pattern, f'of the form {pattern}')}"
    if kind in _SENTENCES:
        return _SENTENCES[kind](shown, context)
    if kind == "value_error":  # of a validator, whose words pydantic puts its own before
        return f"{shown}: {context['error']}"
    if (expected := _KINDS.get(kind.partition("_")[0])) and kind.endswith(("_type", "_parsing", "_from_float")):
        hint = _hint(kind, given) or _shape_hint(kind, given, section_at(path, root))
        return f"empty; expected {expected}" if given is None else f"{shown} is not {expected}{hint}"
    return str(finding["msg"])


def show(value: Any) -> str:
    """A value as it may stand in a message: short, on one line, and never the contents of a list or mapping."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value) if not isinstance(value, str) else f'"{value}"' if value.isprintable() else repr(value)
    return text if len(text) <= 60 else f"{text[:40]}… ({len(text)} characters)"


def _unknown_key(path: Path, root: type[Section]) -> str:
    name = str(path[-1])
    section = section_at(path[:-1], root)
    known = list(fields_by_key(section)) if section else []
    if root is job.Job and name not in known and (key := synonym(path, root)):
        return f"unknown key; did you mean {key}?"
    # A similar key of the same section is more likely meant than a key of this very name in another one.
    if closest(name, known) is None and (places := places_of(name, root)):
        return f"unknown key; did you mean {' or '.join(places[:3])}?"
    return f"unknown key; {suggestion(name, known, kind='keys')}"


def meant_by(path: Path, root: type[Section] = job.Job) -> Path | None:
    """The key that was meant by an unknown one, as far as that can be guessed."""
    section = section_at(path[:-1], root)
    name = closest(str(path[-1]), section.model_fields) if section else None
    return (*path[:-1], name) if name else None


def _meant(given: Any, choices: Any) -> str:
    match = closest(given, choices) if isinstance(given, str) else None
    return f"; did you mean {match}?" if match else ""


def _hint(kind: str, given: Any) -> str:
    if kind.startswith("string") and isinstance(given, bool | int | float):
        return "; put it in quotes"
    if kind.startswith("int") and isinstance(given, float) and given.is_integer() and abs(given) < 1e15:
        return f"; write {int(given)}"
    if kind.startswith(("int", "float")) and isinstance(given, str) and re.fullmatch(r"[0-9][0-9_]*", given):
        return f"; write {int(given)} without quotes, leading zeros and underscores" if len(given) < 30 else ""
    return ""


def _shape_hint(kind: str, given: Any, section: type[Section] | None) -> str:
    """How a single value is written where a list, or a section that has a name, is wanted."""
    if isinstance(given, bool | dict | list) or len(str(given)) > _SHORT:
        return ""
    if kind == "list_type":
        return f"; write [{given}]"
    named = section is not None and "name" in section.model_fields and isinstance(given, str)
    return f"; write {{name: {given}}}" if kind == "model_type" and named else ""


def _bound(limit: float) -> str:
    return f"{limit:.10g}" if isinstance(limit, float) else str(limit)
