"""Stand-in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

OUTPUT = "probability"


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]
    data: memoryview | list[Any]


def server_metadata() -> dict[str, Any]:
    return {"name": "clickline", "version": "0", "extensions": ["binary_tensor_data"]}


def model_metadata(loaded: Any, name: str, versions: Any) -> dict[str, Any]:
    return {
        "name": name,
        "versions": [str(one) for one in versions],
        "platform": "clickline",
        "inputs": [{"name": one, "datatype": "BYTES", "shape": [-1]} for one in loaded.reader.columns],
        "outputs": [{"name": "probability", "datatype": "FP32", "shape": [-1, 1]}],
    }
