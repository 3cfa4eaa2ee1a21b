"""What `clickline serve` makes of its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import clickline.cli.verbs.processes.serve  # noqa: F401  (the name in the package is the verb)
from clickline.errors import JobError

settings = sys.modules["clickline.cli.verbs.processes.serve"]._settings
NOTHING = (None, None, None, "cube", "ctr", None, None)


def test_a_store_is_one_model() -> None:
    found = settings("versions/demo", None, None, "cube", "ctr", None, None)
    assert (found.listen, found.workers, list(found.models), found.default_model) == (
        "127.0.0.1:8010",
        1,
        ["ctr"],
        "ctr",
    )
    assert (found.models["ctr"].store, found.models["ctr"].cube) == ("versions/demo", None)


def test_a_cube_is_addresses_or_a_file(tmp_path: Path) -> None:
    text = "tcp:10.0.0.1:1,10.0.0.2:2;unix:/c.sock"
    found = settings("s", None, text, "dict", "ctr", "127.0.0.1:0", 2)
    assert found.models["ctr"].cube.servers == [["tcp:10.0.0.1:1", "tcp:10.0.0.2:2"], ["unix:/c.sock"]]
    assert (found.models["ctr"].cube.name, found.listen, found.workers) == ("dict", "127.0.0.1:0", 2)
    (tmp_path / "cube.conf").write_text("[]")
    found = settings("s", None, str(tmp_path / "cube.conf"), "dict", "ctr", None, None)
    assert found.models["ctr"].cube.servers == str(tmp_path / "cube.conf")
    with pytest.raises(JobError, match="--cube"):
        settings("s", None, "nowhere", "dict", "ctr", None, None)


def test_flags_are_stronger_than_the_file(tmp_path: Path) -> None:
    path = tmp_path / "serve.yaml"
    path.write_text("models: {a: {store: x}, b: {store: y}}\nlisten: 127.0.0.1:1\nworkers: 3\nlimits: {rows: 5}\n")
    found = settings(None, path, None, "cube", "ctr", None, None)
    assert (found.listen, found.workers, found.limits.rows, list(found.models)) == ("127.0.0.1:1", 3, 5, ["a", "b"])
    found = settings(None, path, None, "cube", "ctr", "127.0.0.1:2", 1)
    assert (found.listen, found.workers, found.limits.rows) == ("127.0.0.1:2", 1, 5)


def test_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    for wrong in (NOTHING, ("s", tmp_path / "f", None, "cube", "ctr", None, None)):
        with pytest.raises(JobError, match="either a store"):
            settings(*wrong)
    with pytest.raises(JobError, match=r"models\.NAME\.cube"):
        settings(None, tmp_path / "f", "tcp:a:1", "cube", "ctr", None, None)
    with pytest.raises(JobError, match="models"):
        settings("s", None, None, "cube", "no such/name", None, None)


def test_for_how_long_a_worker_may_stand_still_is_given_by_a_flag() -> None:
    found = settings("versions/demo", None, None, "cube", "ctr", None, 2, stall_after=3.5)
    assert (found.workers, found.stall_after) == (2, 3.5)
