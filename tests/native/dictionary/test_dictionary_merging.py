"""Merging, cutting, joining and differences: whatever the way, the same rows are the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clickline._native import Dictionary, Layers, bucket_of, difference_dictionary, merge_dictionaries

KEYS = st.one_of(st.integers(0, 40), st.integers(2**64 - 40, 2**64 - 1))
BASE = st.dictionaries(KEYS, st.binary(min_size=4, max_size=4), max_size=40)
DELTA = st.dictionaries(KEYS, st.none() | st.binary(min_size=4, max_size=4), max_size=20)
ANY_SIZE = st.dictionaries(KEYS, st.none() | st.binary(max_size=40), max_size=30)
often = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def content(dictionary: Dictionary) -> bytes:
    return Path(dictionary.path).read_bytes()


def merged(path: Path, layers: list[Dictionary], *, first: int = 0, last: int = 4096, keep: bool = False) -> Dictionary:
    merge_dictionaries(path, layers, first_bucket=first, last_bucket=last, keep_deleted=keep)
    made = Dictionary(path)
    made.verify()
    return made


def owned(shard: int, shards: int) -> tuple[int, int]:
    return 4096 * shard // shards, 4096 * (shard + 1) // shards


def latest(versions: list[dict[int, bytes | None]]) -> dict[int, bytes | None]:
    return {key: value for version in versions for key, value in version.items()}


@often
@given(st.lists(DELTA, min_size=1, max_size=5))
def test_a_base_and_deltas_are_one_full_base(
    write: Any, tmp_path: Path, versions: list[dict[int, bytes | None]]
) -> None:
    layers = [write(version, name=f"layer{i}") for i, version in enumerate(versions)]
    rows = latest(versions)
    alive = {key: value for key, value in rows.items() if value is not None}
    assert content(merged(tmp_path / "full", layers)) == content(write(alive, name="expected"))
    assert content(merged(tmp_path / "delta", layers, keep=True)) == content(write(rows, name="expected"))
    asked = np.array([*rows, 77], np.uint64)
    for source in (Layers(layers), Dictionary(tmp_path / "full")):
        status, found = source.lookup(asked)
        assert [bytes(row) if not s else None for s, row in zip(status, found, strict=True)] == [*rows.values(), None]


@often
@given(ANY_SIZE, ANY_SIZE)
def test_values_of_any_size_merge_too(write: Any, tmp_path: Path, a: Any, b: Any) -> None:
    layers = [write(a, name="a", row_bytes=0), write(b, name="b", row_bytes=0)]
    made = merged(tmp_path / "made", layers, keep=True)
    assert content(made) == content(write({**a, **b}, name="expected", row_bytes=0))


@often
@given(DELTA, st.integers(1, 9))
def test_cutting_and_joining_gives_the_same_bytes(write: Any, tmp_path: Path, rows: Any, shards: int) -> None:
    whole = write(rows, name="whole")
    parts = []
    for shard in range(shards):
        first, last = owned(shard, shards)
        parts.append(merged(tmp_path / f"part{shard}", [whole], first=first, last=last, keep=True))
        assert content(parts[-1]) == content(write(rows, first=first, last=last, name="expected"))
    assert content(merged(tmp_path / "joined", parts, keep=True)) == content(whole)


@often
@given(BASE, BASE)
def test_a_difference_makes_the_new_of_the_old(write: Any, tmp_path: Path, old: Any, new: Any) -> None:
    parent, made = write(old, name="old"), write(new, name="new")
    facts = difference_dictionary(tmp_path / "delta", [parent], [made])
    delta = Dictionary(tmp_path / "delta")
    delta.verify()
    assert content(merged(tmp_path / "again", [parent, delta])) == content(made)
    assert facts["count"] == sum(old.get(key) != value for key, value in new.items())
    assert facts["deleted"] == len(old.keys() - new.keys())


def test_from_two_shards_to_three_only_what_must_moves(write: Any, tmp_path: Path) -> None:
    rows = {key: key.to_bytes(4, "little") for key in range(3000)}
    two = [write(rows, first=owned(shard, 2)[0], last=owned(shard, 2)[1]) for shard in range(2)]
    for shard in range(3):
        first, last = owned(shard, 3)
        made = merged(tmp_path / f"of3-{shard}", two, first=first, last=last)
        assert content(made) == content(write(rows, first=first, last=last))
        before = owned(shard, 2) if shard < 2 else (0, 0)
        came = {key for key in made.keys().tolist() if not before[0] <= bucket_of(key) < before[1]}
        had = set(two[shard].keys().tolist()) if shard < 2 else set()
        assert set(made.keys().tolist()) - had == came


def test_the_number_of_threads_changes_no_byte(write: Any, tmp_path: Path) -> None:
    layers = [write({key: b"%04d" % (key % 1000) for key in range(start, start + 4000)}) for start in (0, 2000)]
    for threads in (1, 3):
        merge_dictionaries(
            tmp_path / f"t{threads}", layers, first_bucket=0, last_bucket=4096, keep_deleted=False, threads=threads
        )
    assert (tmp_path / "t1").read_bytes() == (tmp_path / "t3").read_bytes()
