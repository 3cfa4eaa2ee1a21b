"""Publishers that are killed, interrupted or in each other's way: the store is as it was, or has the whole version."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from clickline.errors import VersionError
from clickline.files import failpoints
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.maintenance import list_versions, verify
from clickline.versions.store import Store, open_store
from support.processes import ENVIRONMENT, start
from support.programs import PROGRAMS
from support.versions.trained_run import Training


@pytest.mark.heavy
def test_killed_at_every_point_the_store_is_as_it_was_or_complete(
    filled: Store, training: Training, record_property: Callable[[str, object], None]
) -> None:
    assert filled.directory is not None
    before = filled.names()
    script = PROGRAMS / "publisher_deaths.py"
    ran = subprocess.run(
        [sys.executable, script, training.checkpoints[-1], filled.directory],
        capture_output=True, text=True, env=ENVIRONMENT, timeout=300, check=False,
    )  # fmt: skip
    deaths = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [death["point"] for death in deaths] == list(failpoints.PUBLISHING), ran.stderr
    assert all(death["signal"] == signal.SIGKILL for death in deaths)
    *early, last = deaths
    assert {(death["last"], death["serving"]) for death in early} == {(3, 3)}
    assert [death["torn"] for death in deaths] == [death["point"] == "publish.donefile-half" for death in deaths]
    for death in early:
        extra = [name for name in death["names"] if name not in before]
        renamed = death["point"] in ("publish.after-rename", "publish.donefile-half")
        assert len(extra) == 1 and extra[0].startswith("v0000000004" if renamed else ".writing-"), death
    assert (last["last"], last["serving"]) == (4, 4)
    assert last["names"] == sorted([*before, "v0000000004"])
    verify(filled, 4)
    record_property("publishers killed", {"points": len(deaths), "torn": 0})


def test_a_failure_point_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no failure point 'publish\.nowhere'; known: .*publish\.done"):
        failpoints.reach("publish.nowhere")


@pytest.mark.heavy
def test_two_publishers_at_once_take_turns(training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    both = [start("publish", training.run, "--to", store.url, "--sample-rows", "16", "--json") for _ in range(2)]
    said = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted((one["version"], one["kind"]) for one in said) == [(1, "base"), (2, "delta")]
    assert [one["parent"] for one in list_versions(store)] == [None, 1]
    verify(store, 2)


@pytest.mark.heavy
def test_an_interrupt_leaves_nothing(training: Training, tmp_path: Path) -> None:
    store = open_store(tmp_path / "store")
    publisher = start("publish", training.run, "--to", store.url)
    while not any(name.startswith(".writing-") for name in store.names()):
        assert publisher.poll() is None, publisher.communicate()
        time.sleep(0.005)
    publisher.send_signal(signal.SIGINT)
    _, errors = publisher.communicate(timeout=60)
    assert publisher.returncode == 130, errors
    assert "Traceback" not in errors
    assert store.names() == [".publishing.lock"]


@pytest.mark.heavy
def test_what_dead_publishers_left_is_cleared_away(filled: Store, training: Training) -> None:
    assert filled.directory is not None
    (filled.directory / ".writing-v0000000004-1").mkdir()
    (filled.directory / "v0000000004").mkdir()
    (filled.directory / "v0000000004" / "linear.dict").write_bytes(b"half")
    assert donefile.read(filled).last == 3
    publish(training.run, filled, Settings(sample_rows=16))
    assert not [name for name in filled.names() if name.startswith(".writing-")]
    verify(filled, 4)


def test_whoever_waits_too_long_is_told_for_whom(tmp_path: Path) -> None:
    for url in (str(tmp_path / "store"), "memory://locked"):
        store = open_store(url)
        said: list[str] = []
        with (
            store.locked("publishing"),
            pytest.raises(VersionError, match=r"held by process \d+ on .* for more than 0 s"),
            store.locked("publishing", wait=0.1, say=said.append),
        ):
            pass
        assert said and said[0].startswith("waiting for process ")
        with store.locked("publishing", wait=0.1):  # free again
            pass
