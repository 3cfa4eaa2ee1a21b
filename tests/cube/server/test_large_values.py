"""Values of 4 KiB and 64 KiB, and of both sizes, delivered by an agent and read by the client and by HTTP."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clickline import _native
from clickline.compat.cube.http.seek import LARGEST_ANSWER
from clickline.cube.builder.builder import RowFile, VersionInput, build
from clickline.files.digests import file_sha256
from support.cubes.local_shard import NAME, OneShard

COUNT = 1200
KEYS = np.random.default_rng(5).choice(np.arange(1, 1 << 40, 1 << 20, dtype=np.uint64), COUNT, replace=False)


def delivered(shard: OneShard, directory: Path, values: list[bytes]) -> None:
    path = directory / "large.dict"
    if len({len(value) for value in values}) == 1:
        content: Any = np.frombuffer(b"".join(values), np.uint8).reshape(len(values), -1)
    else:
        bounds = np.cumsum([0, *map(len, values)]).astype(np.uint64)
        content = (bounds, np.frombuffer(b"".join(values), np.uint8))
    _native.write_dictionary(str(path), KEYS[: len(values)], content, dtype=0, dim=0)
    file = RowFile(path, path.stat().st_size, file_sha256(path))
    built = build(VersionInput(1, None, 1, "digest", {"large": [file]}), out=shard.builds, name=NAME, shards=1)
    shard.build = lambda _version: built  # type: ignore[method-assign]
    shard.deliver(1)


def value_of(key: int, size: int) -> bytes:
    return np.random.default_rng(key).bytes(size)


@pytest.mark.parametrize("sizes", [(4096,), (65536,), (4096, 65536)], ids=["4 KiB", "64 KiB", "both"])
def test_large_values_are_read_as_they_were_built(shard: OneShard, tmp_path: Path, sizes: tuple[int, ...]) -> None:
    values = [value_of(int(key), sizes[n % len(sizes)]) for n, key in enumerate(KEYS)]
    delivered(shard, tmp_path, values)
    absent = 12345
    with shard.client() as client:
        found = client.get("large", [*KEYS.tolist(), absent])
        assert (found.version, found.code, found.errors) == (1, 0, [])
        assert [found.value(n) for n in range(COUNT + 1)] == [*values, b""]
        assert client.seek("large", int(KEYS[7])) == (0, values[7])
        assert client.seek("large", absent) == (-1, b"")
    url = f"{shard.cube.web.address}/DictService/seek"
    asked = [*KEYS[:200].tolist(), absent]
    answer = shard.http.post(url, json={"keys": asked, "version_required": True}).json()
    assert answer["version"] == "1"
    assert [base64.b64decode(one["value"]) for one in answer["values"]] == [*values[:200], b""]
    assert [one["status"] == 0 for one in answer["values"]] == [True] * 200 + [False]


def test_an_answer_by_http_has_a_limit(shard: OneShard, tmp_path: Path) -> None:
    delivered(shard, tmp_path, [value_of(int(key), 65536) for key in KEYS[:600]])
    url = f"{shard.cube.web.address}/DictService/seek"
    refused = shard.http.post(url, json={"keys": KEYS[:600].tolist()})
    assert (refused.status_code, str(LARGEST_ANSWER) in refused.json()["error"]) == (400, True)
    assert len(shard.http.post(url, json={"keys": KEYS[:300].tolist()}).json()["values"]) == 300
