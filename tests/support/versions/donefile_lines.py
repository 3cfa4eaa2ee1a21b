"""Lines of a donefile."""

from __future__ import annotations

import json

DIGEST = "0" * 64


def line(version: int, /, *, kind: str = "base", **facts: object) -> dict[str, object]:
    parent = version - 1 if kind == "delta" else None
    manifest = f"v{version:010d}/manifest.json"
    return {
        "version": version, "kind": kind, "parent": parent, "manifest": manifest, "sha256": DIGEST, "time": 1, **facts
    }  # fmt: skip


def text(*lines: dict[str, object]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)
