"""Versions whose predictions are known, and gates that hold requests up."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from clickline.files.digests import file_sha256
from clickline.serve.predictor.model_version import ModelVersion
from clickline.versions import donefile
from clickline.versions.store import Store
from support.serving.raw_rows import Rows


@dataclass(frozen=True)
class Known:
    """A store, rows to ask about, and the trainer's probabilities for them by version."""

    store: Store
    rows: Rows
    expected: dict[int, NDArray[np.float32]]

    def switch(self, version: int) -> None:
        """The version to serve, forwards or back."""
        donefile.append_rollback(self.store, to=version)


class Gate:
    """Stands before the rows of a version: batches wait until it is opened, or fail if it is told so.

    Within `with`, inside that of the predictor, it is opened when a test fails, so that the predictor can close.
    """

    def __init__(self, loaded: ModelVersion) -> None:
        self._rows = loaded._source
        self.opened, self.reached = threading.Event(), threading.Semaphore(0)
        self.error: Exception | None = None
        self.batches: list[int] = []
        loaded._source = self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.opened.set()

    def rows(self, table: str, keys: NDArray[np.uint64]) -> Any:
        self.reached.release()
        assert self.opened.wait(60)
        if self.error is not None:
            raise self.error
        return self._rows.rows(table, keys)

    def strictly(self) -> Any:
        return self._rows


def seal(store: Store, version: int) -> Callable[[], None]:
    """Make manifest and donefile agree with a version's files as they are now; returns what undoes it."""
    assert store.directory is not None
    done, manifest = store.directory / donefile.DONEFILE, store.directory / donefile.manifest_of(version)
    before = done.read_bytes(), manifest.read_bytes()
    facts = json.loads(before[1])
    facts["files"] = {
        name: {"bytes": (manifest.parent / name).stat().st_size, "sha256": file_sha256(manifest.parent / name)}
        for name in facts["files"]
    }
    manifest.write_bytes(json.dumps(facts).encode())
    lines = [json.loads(line) for line in before[0].splitlines()]
    for line in lines:
        line.pop("check")
        if line.get("version") == version:
            line["sha256"] = file_sha256(manifest)
    done.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def undo() -> None:
        manifest.write_bytes(before[1])
        done.write_bytes(before[0])
        donefile.append_rollback(store, to=version)

    return undo
