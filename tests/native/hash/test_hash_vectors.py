"""Keys are a promise: the page that defines them, its test vectors, its Python and the native code agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from clickline import _native

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "keys.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| `([^`]+)` \| (?:`([^`]*)` )?\| `(0x[0-9a-f]{16})` \| `(0x[0-9a-f]{16})` \| (\d+) \|$", re.MULTILINE
)
VECTORS = [
    (slot, value, int(seed, 16), int(key, 16), int(bucket)) for slot, value, seed, key, bucket in ROW.findall(PAGE)
]

DRIVER = """
import json, sys
slots_and_values, seeded, numbers = json.load(sys.stdin)
json.dump([[feature_key(slot, bytes.fromhex(value)) for slot, value in slots_and_values],
           [xxh64(bytes.fromhex(data), seed) for data, seed in seeded],
           [bucket_of(number) for number in numbers]], sys.stdout)
"""


def test_the_page_has_its_vectors() -> None:
    assert len(VECTORS) == 11
    assert VECTORS[0][:2] == ("C1", "")


@pytest.mark.parametrize(("slot", "value", "seed", "key", "bucket"), VECTORS)
def test_the_native_code_gives_the_pages_vectors(slot: str, value: str, seed: int, key: int, bucket: int) -> None:
    assert _native.xxh64(slot.encode()) == seed
    assert _native.xxh64(value.encode(), seed) == key
    assert _native.feature_key(slot, value.encode()) == key
    assert _native.bucket_of(key) == bucket


def test_published_values_of_xxh64() -> None:
    assert _native.xxh64(b"") == 0xEF46DB3751D8E999
    assert _native.xxh64(b"", 1) == 0xD5AFBA1336A3BE4B
    assert _native.xxh64(b"abc") == 0x44BC2CF5AD770999
    assert _native.xxh64(b"Nobody inspects the spammish repetition") == 0xFBCEA83C8A378BF1


def test_buckets_of_raw_keys() -> None:
    assert [_native.bucket_of(key) for key in (0, 1, 42, 2**64 - 1)] == [0, 2531, 3921, 1564]
    counts = np.bincount([_native.bucket_of(key) for key in range(4096 * 8)], minlength=4096)
    assert counts.shape == (4096,)
    assert counts.min() >= 4
    assert counts.max() <= 12


def test_the_pages_python_agrees_with_the_native_code() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(code) == 1
    rng = np.random.default_rng(5)
    values = [rng.bytes(int(size)) for size in [*range(70), 255, 256, 1000, 4096]]
    slots = ["C1", "a" * 40, "město", "用户"]
    asked = [(slots[i % 4], value) for i, value in enumerate(values)]
    seeded = [
        (value, int(seed))
        for value, seed in zip(values, rng.integers(2**64, size=len(values), dtype=np.uint64), strict=True)
    ]
    numbers = [0, 1, 2**63, 2**64 - 1, *map(int, rng.integers(2**64, size=20, dtype=np.uint64))]
    question = [[(s, v.hex()) for s, v in asked], [(v.hex(), seed) for v, seed in seeded], numbers]
    done = subprocess.run(
        [sys.executable, "-I", "-c", code[0] + DRIVER],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        check=True,
    )
    keys, hashes, buckets = json.loads(done.stdout)
    assert keys == [_native.feature_key(slot, value) for slot, value in asked]
    assert hashes == [_native.xxh64(value, seed) for value, seed in seeded]
    assert buckets == [_native.bucket_of(number) for number in numbers]
