"""What a gRPC server asks: a row's probability is its I1 in hundredths, and what is asked can be watched."""

from __future__ import annotations

import struct
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from clickline.data.batch import Batch
from clickline.net.request_errors import refuse
from clickline.serve.metrics.request_series import series_of
from clickline.serve.prediction import PredictionInput, PredictionResult, Tensor

LAYOUTS = {
    "BOOL": "?",
    **{f"{sign}INT{bits}": f"<{kind}{bits // 8}" for sign, kind in (("", "i"), ("U", "u")) for bits in (8, 16, 32, 64)},
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
}


def values_of(tensor: Tensor) -> list[Any]:
    """A tensor's values; a slow and plain reading of what the protocol says."""
    if tensor.datatype != "BYTES":
        return np.frombuffer(tensor.data, LAYOUTS[tensor.datatype]).tolist()
    found, at, data = [], 0, bytes(tensor.data)
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


class ReaderDouble:
    columns = ("I1", "C1")

    def __init__(self) -> None:
        self.seen: list[list[Tensor]] = []

    def from_tensors(self, tensors: Sequence[Tensor], *, most_rows: int) -> PredictionInput:
        self.seen.append(list(tensors))
        if not tensors:
            raise refuse("malformed", "there are no inputs")
        if unknown := next((one.name for one in tensors if one.name not in self.columns), None):
            raise refuse("unknown_feature", f"'{unknown}' is no feature")
        rows = tensors[0].shape[0]
        if rows > most_rows:
            raise refuse("too_large", f"{rows} rows, but at most {most_rows} are taken")
        numbers = next((values_of(one) for one in tensors if one.name == "I1"), [0.0] * rows)
        dense = np.array([float(value) for value in numbers], np.float32)[:, None]
        return PredictionInput(Batch(np.zeros((rows, 1), np.float32), dense, np.zeros(0, np.uint64)), 0)


class AskedDouble:
    """What a Predictor offers to a protocol."""

    def __init__(self) -> None:
        self.reader, self.version, self.is_ready = ReaderDouble(), 7, True
        self.keys: list[str | int | None] = []
        self.timeouts: list[float | None] = []
        self.fails_with: Exception | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def choose(self, model: str | None = None, *, version: int | None = None, key: str | int | None = None) -> Any:
        if model not in (None, "ctr"):
            raise refuse("unknown_model", f"there is no model {model}")
        if not self.is_ready:
            raise refuse("not_ready", "model ctr has no version yet", 1.5)
        if version not in (None, self.version):
            raise refuse("unknown_version", f"there is no version {version}")
        self.keys.append(key)
        slots, dense = (_named("C1"),), (_named("I1"),)
        schema = SimpleNamespace(format="criteo", labels=("label",), slots=slots, dense=dense, output="probability")
        loaded = SimpleNamespace(reader=self.reader, version=self.version, schema=schema)
        served = SimpleNamespace(versions=[6, 7])
        tag = "b" if key is not None else ""
        return SimpleNamespace(model_version=loaded, model="ctr", tag=tag, served=served, series=series_of("ctr", tag))

    def ask(
        self, chosen: Any, question: PredictionInput, timeout: float | None = None, *, again: Any = None
    ) -> PredictionResult:
        self.timeouts.append(timeout)
        if self.fails_with is not None:
            raise self.fails_with
        if not self.goes_on.wait(timeout):
            raise refuse("timeout", f"no answer within {timeout:g} s")
        return PredictionResult(question.batch.dense / 100, self.version, "ctr", chosen.tag, ("label",))

    def ready(self) -> bool:
        return self.is_ready


def _named(name: str) -> Any:
    return SimpleNamespace(name=name, column=None, separator="", size=1)
