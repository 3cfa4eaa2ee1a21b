"""Credentials of a submission: ak, sk and fs_ugi.

They come from the file that names them (with a warning), from the environment, or from a file that only its owner can
read. No generated file has them: a reference to the environment stands in their place. ak and sk are PaddleCloud's
own, and reach nobody from here; fs_ugi goes to the nodes, by the launcher's own connection.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from clickline.compat.paddlerec.reading.file_kinds import is_backend
from clickline.config.loading.yaml_lines import UnreadableError, parse
from clickline.errors import JobError
from clickline.files.storage import is_local, protocol_of

VARIABLES = {"ak": "CLICKLINE_AK", "sk": "CLICKLINE_SK", "fs_ugi": "CLICKLINE_FS_UGI"}
"""Of the environment, by the key that each stands for."""
FILE_VARIABLE = "CLICKLINE_CREDENTIALS"
_REFERENCE = re.compile(r"\$\{env:([A-Za-z_]\w*)\}", re.ASCII)
_LINE = re.compile(r"(?P<key>\s*(?:ak|sk|fs_ugi)\s*:\s*)(?P<value>\S.*?)(?P<comment>\s+#.*)?")
_OPTIONS = {
    "webhdfs": ("user", "password"),
    "hdfs": ("user", ""),
    "s3": ("key", "secret"),
    "s3a": ("key", "secret"),
    "ftp": ("username", "password"),
    "sftp": ("username", "password"),
    "ssh": ("username", "password"),
}
"""Options of a file system for what stands before and after the comma of fs_ugi."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """Those that were found. Nothing shows them."""

    values: dict[str, str] = field(default_factory=dict, repr=False)
    variables: frozenset[str] = frozenset()
    """Of the environment that hold some: processes that need none are started without them."""

    def storage_options(self, url: str) -> dict[str, str]:
        """Options of the file system of a URL. Raises JobError if it has none for them."""
        text = self.values.get("fs_ugi", "")
        if not text or is_local(url):
            return {}
        user, _, password = text.partition(",")
        names = _OPTIONS.get(protocol_of(url))
        if names is None:
            known = ", ".join(f"{protocol}://" for protocol in _OPTIONS)
            raise JobError(f"has no meaning for {protocol_of(url)}://, but for {known}: leave it out")
        return {name: value for name, value in zip(names, (user, password), strict=True) if name and value}


def default_file() -> Path:
    """Where credentials are looked for if no file is named."""
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "clickline" / "credentials"


def find_credentials(given: Mapping[str, str], *, file: Path | None = None) -> Credentials:
    """What is given, as values or references, is stronger than the environment, and that than the file.

    Raises JobError for a reference to nothing, and for a file that others can read.
    """
    values, used = dict(_in_file(file)), {*VARIABLES.values(), FILE_VARIABLE}
    for key, variable in VARIABLES.items():
        if found := os.environ.get(variable, ""):
            values[key] = found
        text = given.get(key, "")
        references = [name for name in _REFERENCE.findall(text) if name != variable]
        used.update(references)
        if text == reference(key) or not text:
            continue
        for name in references:
            if name not in os.environ:
                raise JobError(f"{key} refers to the environment variable {name}, which is not set: export it first")
        values[key] = _REFERENCE.sub(lambda match: os.environ.get(match[1], ""), text)
    return Credentials(values, frozenset(used))


def reference(key: str) -> str:
    """What stands in generated files in the place of a credential."""
    return f"${{env:{VARIABLES[key]}}}"


def how_to_give(key: str) -> str:
    """A remedy for a credential that is missing."""
    return f"export {VARIABLES[key]}, or write `{key} = VALUE` into {default_file()} and chmod 600 it"


def masked_yaml(text: str) -> str:
    """A YAML file as it may be copied: a backend.yaml has references in the place of credentials."""
    value = _parsed(text)
    if not isinstance(value, dict) or not is_backend(value):
        return text
    # Line by line, so that comments and order stay as they were written; what comes out is parsed again, and counts
    # only if it differs from the original in nothing but the credentials.
    lines = (_masked_line(line) for line in text.split("\n"))
    masked = "\n".join(lines)
    if _parsed(masked) == _masked_values(value):
        return masked
    # Written in another style than a key a line: the comments are lost then.
    return yaml.safe_dump(_masked_values(value), sort_keys=False, allow_unicode=True)


def _parsed(text: str) -> object:
    try:
        return parse(text, repeated_keys="last").value
    except UnreadableError:
        return None


def _masked_line(line: str) -> str:
    match = _LINE.fullmatch(line)
    if match is None or match["value"] in ('""', "''", "null", "~") or match["value"].startswith("#"):
        return line
    return f'{match["key"]}"{reference(match["key"].strip().rstrip(":").strip())}"{match["comment"] or ""}'


def _masked_values(value: object) -> object:
    if isinstance(value, dict):
        return {
            key: reference(key) if key in VARIABLES and inner not in (None, "") else _masked_values(inner)
            for key, inner in value.items()
        }
    return [_masked_values(inner) for inner in value] if isinstance(value, list) else value


def _in_file(file: Path | None) -> Iterator[tuple[str, str]]:
    path = file or default_file()
    try:
        facts, text = path.stat(), path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if file is not None:
            raise JobError(f"--credentials {path}: there is no such file") from None
        return
    except (OSError, ValueError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    if stat.S_IMODE(facts.st_mode) & 0o077:
        raise JobError(f"{path} holds credentials and can be read by others: chmod 600 {path}")
    for number, line in enumerate(text.splitlines(), 1):
        key, equals, value = line.partition("=")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if not equals or key.strip() not in VARIABLES:
            raise JobError(f"{path}, line {number}: expected KEY = VALUE, where KEY is {', '.join(VARIABLES)}")
        yield key.strip(), value.strip()
