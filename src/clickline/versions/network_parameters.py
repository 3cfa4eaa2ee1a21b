"""The parameters inside a published network, read from its ONNX file without running it."""

from __future__ import annotations

from typing import Any

import onnx
from numpy.typing import NDArray

from clickline.errors import VersionError


def parameters(content: bytes) -> dict[str, NDArray[Any]]:
    """The parameters of a network, by name."""
    graph = parse_network(content).graph
    return {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}


def parse_network(content: bytes) -> Any:
    """The ONNX model in some bytes."""
    try:
        return onnx.load_model_from_string(content)
    except Exception as error:
        raise VersionError(f"not an ONNX file: {error}") from error
