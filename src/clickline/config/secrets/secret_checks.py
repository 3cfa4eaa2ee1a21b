"""Secrets stay out of jobs: a job has ${env:NAME} in their place, also where it is printed or saved.

What is checked here is the text only. The environment is looked up at the moment of use, by `secret_references`, and
never by anything that prints. No message here repeats a value that may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic_core import PydanticCustomError

_REFERENCE = re.compile(r"\$\{env:[A-Za-z_][A-Za-z0-9_]*\}")
_OPENED = re.compile(r"\$\{[^}]{0,60}\}?")
_URL_PASSWORD = re.compile(r"^[A-Za-z][\w+.-]*://[^/@\s]*:[^/@\s]*@")
_SECRET_WORDS = {"secret", "password", "passwd", "pwd", "passphrase", "token", "credential", "credentials"}
_SECRET_ENDINGS = ("api_key", "access_key", "account_key", "private_key", "connection_string")


def check_references(value: Any) -> Any:
    """Every ${…} in the value, at any depth, must be ${env:NAME}."""
    for text in _strings(value):
        # Proper references are removed first, so that every ${ that is left is a wrong one.
        if opened := _OPENED.search(_REFERENCE.sub("", text)):
            wrong = opened.group()
            raise PydanticCustomError("reference", "{wrong} is not a reference; write ${env:NAME}", {"wrong": wrong})
    return value


def check_plain(text: str) -> str:
    """There must be no reference: it would not be looked up here, but be taken as it stands."""
    if "${" in text:
        raise PydanticCustomError(
            "reference", "references are not looked up here, only in data.storage and data.reader"
        )
    return text


def carries_password(url: str) -> bool:
    """Whether a URL has a password before its host."""
    return _URL_PASSWORD.match(url) is not None


def check_address(path: str) -> str:
    """A URL must not carry a password before its host."""
    if carries_password(path):
        raise PydanticCustomError("secret", "the address holds a password; put it into data.storage, as ${env:NAME}")
    return path


def check_concealed(options: dict[str, Any]) -> dict[str, Any]:
    """Raise if an option that is secret by its name is not a reference."""
    if names := ", ".join(_written_out(options)):
        message = "a secret does not belong into a job: {names}; write ${env:NAME} and set NAME where the job runs"
        raise PydanticCustomError("secret", message, {"names": names})
    return options


def is_secret(name: str) -> bool:
    """Whether an option of this name holds a secret, as far as names tell."""
    # camelCase is split as well: secretKey is the same as secret_key.
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
    return bool(_SECRET_WORDS.intersection(words)) or "_".join(words).endswith(_SECRET_ENDINGS)


def _written_out(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in _written_out(value))
        elif isinstance(value, str) and value and is_secret(name) and not _REFERENCE.fullmatch(value):
            yield name


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
