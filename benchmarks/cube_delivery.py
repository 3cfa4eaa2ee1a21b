"""Section delivery: from the donefile's line to the last of all servers serving, 2 shards with 2 replicas each.

A base of a million keys with 40-byte rows, and a delta of 10,000 of them; builder, transfer, agents and servers are
processes of their own on this machine. ElasticCTR's published timeline for such a base is about 29 s, of which
some 20 s are fixed pauses (1,000,001 keys of 40 bytes, 2 shards, one replica each).
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import numpy as np

from clickline import _native
from clickline.files.digests import file_sha256
from clickline.launch.local_cube import LocalCube
from clickline.versions import donefile
from clickline.versions.store import open_store
from cube_network import keys_of
from peers import scratch
from rounds import Report, console

KEYS, CHANGED, DIM, TABLE = 1_000_000, 10_000, 10, "embedding"
BASE_SECONDS, DELTA_SECONDS = 3.0, 0.5


def run(report: Report, *, rounds: int) -> None:
    bases, deltas = [], []
    with scratch() as directory:
        store = directory / "versions"
        store.mkdir()
        with LocalCube(directory / "cube", store=store, shards=2, replicas=2) as cube:
            clients = [
                _native.CubeClient([[address]], name="bench", job=cube.name, token=cube.token.encode())
                for shard in cube.servers
                for address in shard
            ]
            for number in range(rounds):
                bases.append(_deliver(cube, clients, store, KEYS, delta=False))
                deltas.append(_deliver(cube, clients, store, CHANGED, delta=True))
                console.print(
                    f"  round {number + 1}/{rounds}  base {bases[-1]:.2f} s, delta {deltas[-1]:.2f} s", highlight=False
                )
    for name, seconds in (("base of 1,000,000 keys", bases), ("delta of 10,000 rows", deltas)):
        rounded = [round(one, 3) for one in seconds]
        report.figures[f"delivery, {name}"] = {"median": float(np.median(rounded)), "rounds": rounded, "unit": "s"}
    report.ratio("delivery, base: 3 s/seconds", BASE_SECONDS / float(np.median(bases)), wanted=1)
    report.ratio("delivery, delta: 0.5 s/seconds", DELTA_SECONDS / float(np.median(deltas)), wanted=1)


def _deliver(cube: LocalCube, clients: list[_native.CubeClient], store: Path, count: int, *, delta: bool) -> float:
    """Seconds from the donefile's line until every server reads the new version by itself."""
    version = _write(store, count, delta=delta)
    began = time.perf_counter()
    _announce(store, version)
    key = keys_of(np.arange(1))

    def everywhere() -> bool:
        return all(_version(client, key) == version for client in clients)

    cube.until(everywhere, seconds=120.0, every=0.005)
    return time.perf_counter() - began


def _version(client: _native.CubeClient, key: np.ndarray[tuple[int], np.dtype[np.uint64]]) -> int:
    try:
        return int(client.get(TABLE, key).version)
    except RuntimeError:
        return 0  # nothing loaded yet


def _write(store: Path, count: int, *, delta: bool) -> int:
    version = donefile.read(open_store(store)).last + 1
    folder = store / donefile.directory_of(version)
    folder.mkdir()
    keys = keys_of(np.arange(count))
    rows = np.full((count, DIM), version, np.float32).view(np.uint8).reshape(count, 4 * DIM)
    made = _native.write_dictionary(str(folder / f"{TABLE}.dict"), keys, rows, dtype=1, dim=DIM, threads=2)
    files = {f"{TABLE}.dict": {"bytes": made["bytes"], "sha256": file_sha256(folder / f"{TABLE}.dict")}}
    for name in ("network.onnx", "sample.safetensors"):
        (folder / name).write_bytes(b"not looked at by the cube")
        content = (folder / name).read_bytes()
        files[name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    parent = version - 1 if delta else None
    base = _base(store, version - 1) if delta else version
    table = {"dim": DIM, "dtype": "fp32", "rows": count, "deleted": 0, "total": KEYS, "files": [f"{TABLE}.dict"]}
    manifest = {
        "format": 1,
        "version": version,
        "kind": "delta" if delta else "base",
        "parent": parent,
        "base": base,
        "created": time.time(),
        "tables": {TABLE: table},
        "network": "network.onnx",
        "sample": "sample.safetensors",
        "files": files,
        "watermark": None,
        **{name: {} for name in ("inputs", "outputs", "training", "parity", "job", "schema")},
    }
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return version


def _base(store: Path, version: int) -> int:
    text = (store / donefile.directory_of(version) / "manifest.json").read_text(encoding="utf-8")
    return int(json.loads(text)["base"])


def _announce(store: Path, version: int) -> None:
    text = (store / donefile.directory_of(version) / "manifest.json").read_bytes()
    facts = json.loads(text)
    donefile.append_version(
        open_store(store),
        version=version,
        kind=facts["kind"],
        parent=facts["parent"],
        sha256=hashlib.sha256(text).hexdigest(),
    )
