"""A running suite under faults: what is killed or stands still is mended, and predictions go on meanwhile.

The short form of a longer run: `CLICKLINE_CHAOS_SEED` sets the seed, `CLICKLINE_CHAOS_SECONDS` for how long.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.eventually import eventually
from support.processes import ENVIRONMENT, run
from support.suites.running_suite import RunningSuite
from support.suites.suite_faults import ROLES, FaultSchedule
from support.suites.suite_processes import lives
from support.versions.model_versions import ModelVersions

pytestmark = pytest.mark.heavy
SEED = int(os.environ.get("CLICKLINE_CHAOS_SEED") or random.randrange(1 << 32))
SECONDS = float(os.environ.get("CLICKLINE_CHAOS_SECONDS", "15"))
STATE = "state"


@pytest.fixture(scope="module")
def versions(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelVersions:
    return ModelVersions(tmp_path_factory.mktemp("suite") / STATE / "versions", checkpoint, seed=3)


@pytest.fixture(scope="module")
def suite(versions: ModelVersions) -> Iterator[RunningSuite]:
    with RunningSuite(versions.path.parent) as found:
        yield found


def check(schedule: FaultSchedule, suite: RunningSuite) -> None:
    """What must hold whatever was injected."""
    outcome = schedule.outcome
    counts, told = outcome.counts, "\n".join([f"seed {outcome.seed}", *outcome.trouble[:20], *suite.events[-40:]])
    assert (counts["mixed"], counts["wrong"], counts["failed"]) == (0, 0, 0), told
    # Asked once, a request may be lost with the process that was answering it. None is when others are hit.
    fatal = sum(outcome.faults[f"{kind} {role}"] for kind in ("kill", "stop") for role in ("predictor", "worker"))
    assert counts["lost_once"] <= schedule.plain_clients * fatal, told
    assert "ConnectionRefused" not in told  # the suite holds the socket, also while there is no predictor


def test_every_component_that_stands_still_is_started_again_while_predictions_go_on(
    suite: RunningSuite, versions: ModelVersions, record_property: Callable[[str, object], None]
) -> None:
    schedule = FaultSchedule(suite, versions, seed=SEED)
    roles = list(ROLES)

    def stop_one() -> bool:
        if schedule.inject("stop", roles[0]) is not None:  # else it is not its turn yet
            del roles[0]
        return bool(roles)

    outcome = schedule.run(300.0, step=stop_one)
    record_property("serving counts", f"each component stopped once, {outcome.in_words()}")
    assert outcome.faults == Counter(f"stop {role}" for role in ROLES)
    for name in ("fileserver", "transfer", "agent", "cube", "predictor"):  # a worker's end is in the predictor's log
        assert any(f" {name}." in event and "has stood still" in event for event in suite.events), suite.events
    check(schedule, suite)


def test_however_often_a_component_has_died_it_is_started_again_soon(suite: RunningSuite) -> None:
    """Six deaths in a row: pauses that double without a limit would come to 6.4 s."""
    names = [f"{role}.0" for role in ROLES if role != "worker"]
    before = len(suite.events)
    for _ in range(6):
        pids = {name: suite.pid(name) for name in names}
        for pid in pids.values():
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        for name, pid in pids.items():
            eventually(
                lambda name=name, pid=pid: suite.pid(name) not in (None, pid) and lives(suite.pid(name)),
                what=f"{name} is started again",
            )
    deaths = re.findall(r"(\S+) died, .* started again in ([\d.]+) s", "\n".join(suite.events[before:]))
    assert Counter(name for name, _ in deaths) == dict.fromkeys(names, 6)
    assert max(float(pause) for _, pause in deaths) <= 2.0


def test_a_random_schedule_of_faults(
    suite: RunningSuite, versions: ModelVersions, record_property: Callable[[str, object], None]
) -> None:
    print(f"CLICKLINE_CHAOS_SEED={SEED}")
    schedule = FaultSchedule(suite, versions, seed=SEED)
    outcome = schedule.run(SECONDS)
    record_property("serving counts", outcome.in_words())
    print(outcome.in_words(), dict(outcome.faults))
    check(schedule, suite)
    assert outcome.faults.total() >= 5
    assert outcome.counts["delivered"] == outcome.counts["published"] > 0
    assert outcome.counts["answers"] > 100


def test_the_client_that_is_written_for_a_running_suite_runs_as_it_is(
    suite: RunningSuite, versions: ModelVersions, tmp_path: Path
) -> None:
    written = run("client-config", suite.state, "--out", tmp_path / "client")
    assert written.returncode == 0, written.stderr
    done = subprocess.run(
        [sys.executable, tmp_path / "client" / "predict.py"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert f"version={versions.last}" in done.stdout
    assert "probabilities=" in done.stdout
    eventually(lambda: suite.suite.cube.serving() == versions.last, what="the last version in service")
