"""A manifest with nothing wrong, to be changed."""

from __future__ import annotations

from typing import Any

FILE = {"bytes": 3, "sha256": "a" * 64}


def plain(**changes: Any) -> dict[str, Any]:
    """A manifest with nothing wrong."""
    table = {"dim": 4, "dtype": "fp32", "rows": 5, "deleted": 0, "total": 5, "files": ["embedding.dict"]}
    return {
        "format": 1,
        "version": 1,
        "kind": "base",
        "parent": None,
        "base": 1,
        "created": 1.5,
        "tables": {"embedding": table},
        "network": "network.onnx",
        "inputs": {},
        "outputs": {},
        "sample": "sample.safetensors",
        "files": dict.fromkeys(("embedding.dict", "network.onnx", "sample.safetensors"), FILE),
        "watermark": None,
        "training": {},
        "parity": {},
        "job": {},
        "schema": {},
        **changes,
    }
