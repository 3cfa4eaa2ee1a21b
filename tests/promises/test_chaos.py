"""The short form of `make chaos`, its plan, and its table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.chaos import run  # and with it all kinds of fault
from support.chaos.faults.fault import KINDS
from support.chaos.lanes import lanes
from support.chaos.plan import draw_plan, without
from support.summaries.robustness_table import COUNTS, PAGE, page

TESTS = Path(__file__).parents[1]
SEED = int(os.environ.get("CHAOS_SEED") or 11)


def start(output: Path, *arguments: str) -> subprocess.Popen[str]:
    """In a session of its own, so that what it leaves can be told from what is ours."""
    return subprocess.Popen(
        [sys.executable, "-m", "support.chaos", "--output", str(output), *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_one_seed_draws_one_plan_in_which_every_kind_has_its_turn() -> None:
    assert run.__all__
    plan = draw_plan(3, 1800, lanes())
    assert plan == draw_plan(3, 1800, lanes())
    assert plan != draw_plan(4, 1800, lanes())
    assert len(plan) > 1000
    assert {fault.kind for fault in plan} == set(KINDS)
    assert plan == sorted(plan, key=lambda fault: fault.at)


def test_leaving_a_kind_out_leaves_other_lanes_as_they_are() -> None:
    whole = draw_plan(3, 600, lanes())
    found = draw_plan(3, 600, without(lanes(), {"full disk": "no mounts"}))
    assert not any(fault.kind == "full disk" for fault in found)
    assert [one for one in found if one.lane == "workers"] == [one for one in whole if one.lane == "workers"]


def test_the_page_is_made_from_the_counts() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, json.loads(COUNTS.read_text(encoding="utf-8"))) == text


@pytest.mark.heavy
def test_a_suite_keeps_its_promises_for_a_minute_of_faults(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    process = start(tmp_path, "--minutes", "0.7", "--seed", str(SEED), "--pace", "1.5")
    try:
        out, _ = process.communicate(timeout=600)
    finally:
        process.kill()
    print(out)
    assert process.returncode == 0, out
    found = json.loads((tmp_path / "chaos.json").read_text())
    record_property("chaos", {**found["counts"], "faults": found["faults"]})
    counts = found["counts"]
    assert found["faults"] >= 20
    assert counts["runs"] >= 1
    assert counts["rows_trained"] - counts["rows_repeated"] == counts["rows_in"]
    assert counts["delivered"] == counts["published"] > 0
    assert counts["answers"] > 100


@pytest.mark.heavy
def test_interrupted_it_tells_what_was_seen_and_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    os.environ["TMPDIR"] = str(scratch)
    try:
        process = start(tmp_path / "out", "--minutes", "5")
    finally:
        del os.environ["TMPDIR"]
    seen = []
    assert process.stdout is not None
    for line in process.stdout:
        seen.append(line)
        if "starting the suite" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130, "".join(seen) + out
    assert "what was seen so far" in out
    assert list(scratch.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert str(scratch) not in Path("/proc/mounts").read_text()
