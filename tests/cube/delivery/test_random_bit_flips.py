"""Bits that change at random in what is trusted between a store and a reader: no reader ever sees a wrong row."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from support.bit_flips import BitFlip, build_files, deployed_files, flip_in_any_of, flip_random_bit, version_files
from support.cubes.local_delivery import OneDelivery
from support.eventually import eventually
from support.versions.version_stores import keys_from

ROUNDS = 12
SEED = int(os.environ.get("CLICKLINE_TEST_SEED", "20250711"))


def publish(delivery: OneDelivery, draw: random.Random) -> int:
    first = draw.randrange(1, 200)
    if draw.random() < 0.4:
        return delivery.store.base(keys_from(1, 300))
    return delivery.store.delta(keys_from(first, first + 30), keys_from(first + 40, first + 45))


def in_the_store(delivery: OneDelivery, draw: random.Random, served: int) -> BitFlip | None:
    """Of the version to come: refused until it is repaired, unless the cube does not use what the bit is in."""
    delivery.stop_transfer()
    version = publish(delivery, draw)
    folder = delivery.store.path / f"v{version:010d}"
    flip = flip_in_any_of([delivery.store.path / "versions.jsonl", *folder.iterdir()], draw)
    delivery.start_transfer()
    assert delivery.process is not None and flip is not None
    transfer = delivery.process.transfer
    eventually(lambda: transfer._polled, what="a look at the store")
    first = transfer._polled
    eventually(
        lambda: transfer.problem or delivery.serves(version) or transfer._polled > first, what=f"an answer to {flip}"
    )
    delivery.check_rows(delivery.cube.versions.view.version if delivery.cube else served)
    flip.undo()
    delivery.await_served(version)
    return flip


def in_a_build(delivery: OneDelivery, draw: random.Random, served: int) -> BitFlip | None:
    """Of the version to come, before its agent fetches it: made again."""
    delivery.stop_agent()
    version = publish(delivery, draw)
    delivery.await_build(version)
    if draw.random() < 0.5:
        delivery.stop_transfer()
        flip = flip_in_any_of([path for path in build_files(delivery.builds) if f"_{version}/" in str(path)], draw)
        delivery.start_transfer()
    else:
        flip = flip_in_any_of([path for path in build_files(delivery.builds) if f"_{version}/" in str(path)], draw)
    delivery.check_rows(served)
    delivery.start_agent()
    delivery.await_served(version)
    return flip


def on_a_server(delivery: OneDelivery, draw: random.Random, served: int) -> BitFlip | None:
    """Of what it serves or keeps, while it is down: fetched again, or read from elsewhere."""
    delivery.stop_cube()
    flip = flip_in_any_of(deployed_files(delivery.deploy), draw)
    delivery.start_cube()
    delivery.await_served(served)
    return flip


KINDS: list[Callable[[OneDelivery, random.Random, int], BitFlip | None]] = [in_the_store, in_a_build, on_a_server]


@pytest.mark.heavy
def test_no_wrong_row_is_read_whatever_bit_changes(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    draw = random.Random(SEED)
    print(f"seed {SEED}; CLICKLINE_TEST_SEED sets another one")
    made: Counter[str] = Counter()
    with OneDelivery(tmp_path) as delivery:
        delivery.start_agent()
        delivery.start_transfer()
        delivery.await_served(delivery.store.base(keys_from(1, 300)))
        for number in range(ROUNDS):
            kind = KINDS[number % len(KINDS)] if number < len(KINDS) else draw.choice(KINDS)
            flip = kind(delivery, draw, delivery.store.last)
            print(f"{number}: {kind.__name__}: {flip}")
            made[kind.__name__] += flip is not None
            delivery.await_served(delivery.store.last)
    assert sum(made.values()) >= ROUNDS - 2
    told = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(made.items()))
    record_property("counts", f"flipped bits: {told}; 0 wrong rows (seed {SEED})")


def test_a_flip_changes_one_bit_and_can_be_undone(tmp_path: Path) -> None:
    file = tmp_path / "v0000000001" / "embedding.dict"
    file.parent.mkdir()
    file.write_bytes(bytes(range(200)))
    before = file.stat()
    with file.open("rb") as mapped:
        flip = flip_random_bit(file, random.Random(1))
        assert mapped.read() == bytes(range(200))  # whoever has it open goes on with what was there
    changed = [(a ^ b).bit_count() for a, b in zip(bytes(range(200)), file.read_bytes(), strict=True)]
    assert sum(changed) == 1 and changed[flip.offset] == 1
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert version_files(tmp_path)[1:] == [file]
    assert flip.undo() and file.read_bytes() == bytes(range(200))
    assert not flip.undo()
