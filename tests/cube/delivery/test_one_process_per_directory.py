"""A second cube server, agent or transfer in a directory that a living one uses is refused, and changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from clickline.errors import PeerError
from clickline.files.directory_lock import DirectoryLock
from support.cubes.cube_processes import CubeProcesses
from support.eventually import eventually
from support.versions.version_stores import VersionStore, keys_from


def test_the_second_is_told_who_is_there_and_a_later_one_may_have_it(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path, "agent")
    with pytest.raises(PeerError, match=rf"process {os.getpid()} on .* is the agent of this directory"):
        DirectoryLock(tmp_path, "agent", patience=0.0)
    other = DirectoryLock(tmp_path, "cube server", patience=0.0)
    first.release()
    first.release()
    DirectoryLock(tmp_path, "agent", patience=0.0).release()
    other.release()


def test_who_was_killed_holds_nothing(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib, time\nfrom clickline.files.directory_lock import DirectoryLock\n"
        "lock = DirectoryLock(pathlib.Path(sys.argv[1]), 'agent')\nprint('held', flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(PeerError, match=f"process {process.pid} on"):
            DirectoryLock(tmp_path, "agent", patience=0.0)
        process.send_signal(signal.SIGKILL)
        process.wait()
    DirectoryLock(tmp_path, "agent").release()


@pytest.mark.heavy
def test_twins_of_every_role_are_refused(tmp_path: Path) -> None:
    store = VersionStore(tmp_path / "store")
    store.base(keys_from(1, 100))
    cube = CubeProcesses(tmp_path / "processes", store, shards=1, copies=1)
    try:
        cube.start_all()
        cube.await_all(1)
        firsts = dict(cube.running)
        for role, name in (("cube", "cube.0_0"), ("agent", "agent.0_0"), ("transfer", "transfer")):
            twin = subprocess.Popen(
                [*_at_any_port(firsts[name].args), str(tmp_path / "twin.json")],
                env={**os.environ, "CLICKLINE_TOKEN": "a token of these processes"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            _, said = twin.communicate(timeout=60)
            assert (twin.returncode, f"process {firsts[name].pid} on" in said) == (7, True), (role, said)
        version = store.delta(keys_from(1, 50))
        eventually(lambda: cube.all_serve(version), what="a delivery after the twins")
        assert all(process.poll() is None for process in firsts.values())
    finally:
        cube.close()


def _at_any_port(command: list[str]) -> list[str]:
    """The same command without the name of its ready file; at another address, which alone would not be refused."""
    words = list(command)[:-1]
    where = words.index("--listen") + 1
    words[where] = "127.0.0.1:0" if words[where].startswith("127.") else "tcp:127.0.0.1:0"
    return words
