"""The guide's part on the whole chain: its commands, one after the other, with a job and a log of one's own."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from support.eventually import eventually
from support.page_commands import Reader, shell_blocks
from support.suites.suite_processes import assert_nothing_left, going_up

pytestmark = pytest.mark.heavy


def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    once, (stay,), commands = shell_blocks("docs/guide.md", heading="The whole chain")
    reader = Reader(tmp_path)
    (tmp_path / "tmp").mkdir()
    printed = [reader.types(line) for line in once]
    assert "test AUC through the server" in printed[-1]
    assert "version 1 (base) in runs/versions" in printed[-1]
    assert stay.endswith(" &")
    with going_up(tmp_path, *shlex.split(stay.removesuffix(" &"))[2:]) as up:
        reader.url = up.await_phase("serving")["http"]
        up.await_page()
        assert "trained before" in up.err.read_text()
        status, predict, train, publish, versions, rollback, down = commands
        assert "version 1 in service" in reader.types(status)
        said = json.loads(reader.types(predict))
        assert (len(said["predictions"]), said["versions"]) == (4000, [1])
        reader.types(train)
        assert "version 2 (" in reader.types(publish)
        listed = json.loads(reader.types(f"{versions} --json"))
        assert [one["version"] for one in listed] == [1, 2]
        eventually(lambda: "version 2 in service" in reader.types(status), what="version 2 in service")
        assert "version 1 is the one to serve" in reader.types(rollback)
        eventually(lambda: json.loads(reader.types(predict))["versions"] == [1], what="version 1 served again")
        told = up.told()
        assert "stopped" in reader.types(down)
        assert up.process.wait(30) == 0
    assert_nothing_left(tmp_path, told)
