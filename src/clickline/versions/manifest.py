"""A version's manifest: what is in its directory, where it came from, and what was checked.

A manifest comes from a file that anybody may have written, so it is read with a limit and every key is checked before
it is used; file names cannot lead out of the version's directory. docs/reference/version-format.md is the
specification.
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from clickline.errors import VersionError
from clickline.versions.donefile import HIGHEST, DonefileEntry, manifest_of
from clickline.versions.store import Store

FORMAT: Final = 1
MANIFEST = "manifest.json"
NETWORK = "network.onnx"
SAMPLE = "sample.safetensors"
LIMIT = 16 << 20
DTYPES = {"fp32": 1, "fp16": 2, "u8": 3}
"""Names of row types, and their numbers in a dictionary file."""
Dtype = Literal["fp32", "fp16", "u8"]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$", max_length=200)]
Number = Annotated[int, Field(ge=1, le=HIGHEST)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Checked(BaseModel):
    """Keys that are not known are left alone: a later version may add some. Types are not converted."""

    model_config = ConfigDict(strict=True, frozen=True, populate_by_name=True)


class FileFacts(_Checked):
    bytes: Count
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TableFacts(_Checked):
    """One table of one version."""

    dim: Annotated[int, Field(ge=1, le=4096)]
    dtype: Dtype
    rows: Count
    """In this version's files: all of a base, those that are new or changed of a delta."""
    deleted: Count
    """Keys that the parent has and this version does not."""
    total: Count
    """Rows that a reader of this version sees."""
    files: Annotated[list[FileName], Field(min_length=1, max_length=4096)]


class Manifest(_Checked):
    format: Literal[1]
    version: Number
    kind: Literal["base", "delta"]
    parent: Number | None
    base: Number
    """The base that the chain of parents leads to; the version itself if it is one."""
    created: Annotated[float, Field(ge=0)]
    tables: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], TableFacts]
    network: FileName
    inputs: dict[str, dict[str, Any]]
    outputs: dict[str, dict[str, Any]]
    sample: FileName
    files: dict[FileName, FileFacts]
    watermark: int | None
    """Event time of the newest row that was learned, in seconds; None if the job's data has no times."""
    training: dict[str, Any]
    parity: dict[str, Any]
    job: dict[str, Any]
    data_schema: Annotated[dict[str, Any], Field(alias="schema")]
    unread: list[str] = []
    """Columns of the log that no feature is read from: a request may have them, as the log has."""

    @model_validator(mode="after")
    def _fits_together(self) -> Manifest:
        if (self.kind == "base") != (self.parent is None) or (self.kind == "base") != (self.base == self.version):
            raise ValueError("a base has no parent and is its own base; a delta has both")
        if self.parent is not None and not self.base <= self.parent == self.version - 1:
            raise ValueError(f"a delta on {self.parent}; {self.version - 1} was expected")
        named = {self.network, self.sample, *(file for table in self.tables.values() for file in table.files)}
        if missing := sorted(named - self.files.keys()):
            raise ValueError(f"uses files that are not listed in `files`: {', '.join(missing)}")
        if MANIFEST in self.files:
            raise ValueError("lists itself in `files`")
        return self

    @property
    def dtype(self) -> str:
        """Of all its tables."""
        return next((table.dtype for table in self.tables.values()), "fp32")

    def encoded(self) -> bytes:
        return (json.dumps(self.model_dump(by_alias=True, mode="json"), indent=1, sort_keys=True) + "\n").encode()


def parse(content: bytes, *, where: str) -> Manifest:
    """Check a manifest's text."""
    if len(content) > LIMIT:
        raise VersionError(f"{where}: larger than {LIMIT} bytes; not a manifest")
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise VersionError(f"{where}: not JSON: {error}") from error
    # Before the other keys, so that a later format is refused by its number and not by the first key that differs.
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise VersionError(f"{where}: not a manifest of format {FORMAT}")
    try:
        return Manifest.model_validate(found)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise VersionError(f"{where}: {place + ': ' if place else ''}{first['msg']}") from None


def read_manifest(store: Store, entry: DonefileEntry) -> Manifest:
    """The manifest that a line of the donefile speaks of; refused unless it is the very one."""
    content = store.read(manifest_of(entry.version), limit=LIMIT)
    return checked_manifest(content, entry, where=store.shown(manifest_of(entry.version)))


def checked_manifest(content: bytes, entry: DonefileEntry, *, where: str) -> Manifest:
    """Parse a manifest's text; refused unless it is the one that a line of the donefile speaks of."""
    seen = hashlib.sha256(content).hexdigest()
    if seen != entry.sha256:
        raise VersionError(f"{where}: damaged: its SHA-256 is {seen[:12]}…, the donefile says {entry.sha256[:12]}…")
    manifest = parse(content, where=where)
    # The digest proves which bytes these are, not that the line agrees with them: a line could name another version's
    # manifest.
    for name in ("version", "kind", "parent"):
        if getattr(manifest, name) != getattr(entry, name):
            raise VersionError(
                f"{where}: {name} {getattr(manifest, name)!r}, the donefile says {getattr(entry, name)!r}"
            )
    return manifest
