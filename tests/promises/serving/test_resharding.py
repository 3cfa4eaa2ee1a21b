"""A running suite gets another number of shards and replicas while it is asked: no request fails, no answer is wrong.

Every answer is recomputed from the files of the version that it names. `CLICKLINE_CHAOS_SEED` sets the seed of the
random schedule.
"""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clickline.cube.cube_client import OK, Cube
from clickline.launch.suite_state import read_suite
from support.eventually import eventually
from support.processes import run
from support.serving.prediction_clients import Asker, PlainAsker, totalled, trouble_of
from support.suites.running_suite import RunningSuite
from support.suites.suite_processes import lives
from support.versions.model_versions import ModelVersions

pytestmark = pytest.mark.heavy
SEED = int(os.environ.get("CLICKLINE_CHAOS_SEED") or random.randrange(1 << 32))
CLIENTS, PLAIN = 4, 2
PROBE = list(range(1, 65))


@pytest.fixture(scope="module")
def versions(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelVersions:
    return ModelVersions(tmp_path_factory.mktemp("suite") / "state" / "versions", checkpoint, seed=7)


@pytest.fixture(scope="module")
def suite(versions: ModelVersions) -> Iterator[RunningSuite]:
    with RunningSuite(versions.path.parent) as found:
        yield found


@contextmanager
def asked(suite: RunningSuite, versions: ModelVersions) -> Iterator[list[Asker]]:
    """Clients that never stop asking meanwhile; at the end every answer was right, and none is missing."""
    askers = [
        (PlainAsker if number < PLAIN else Asker)(suite.url, versions, seed=number, pause=0.02)
        for number in range(CLIENTS)
    ]
    for asker in askers:
        asker.start()
    try:
        yield askers
    finally:
        for asker in askers:
            asker.end()
    total, trouble = totalled(askers), trouble_of(askers)
    told = "\n".join([f"seed {SEED}", *trouble[:20], *suite.events[-40:]])
    bad = ("mixed", "wrong", "misnamed", "failed", "lost_once", "refused_once")
    assert {name: total[name] for name in bad} == dict.fromkeys(bad, 0), told
    assert total["answers"] > 50, told


class Scaling(threading.Thread):
    """`clickline scale`, as a process."""

    def __init__(self, suite: RunningSuite, *arguments: str) -> None:
        super().__init__(daemon=True)
        self._suite, self._arguments = suite, arguments
        self.start()

    def run(self) -> None:
        self._done = run("scale", self._suite.state, *self._arguments, "--json")

    def await_phase(self, *phases: str) -> str:
        eventually(lambda: phase(self._suite) in phases or not self.is_alive(), what=f"a suite that is {phases}")
        return phase(self._suite)

    def result(self) -> dict[str, Any]:
        self.join(300)
        self._suite.check()
        assert self._done.returncode == 0, self._done.stdout
        found: dict[str, Any] = json.loads(self._done.stdout)
        return found


def scale_of(suite: RunningSuite) -> dict[str, Any]:
    """What suite.json says about its size."""
    suite.check()
    return dict((read_suite(suite.state) or {}).get("scale") or {})


def phase(suite: RunningSuite) -> str:
    return str(scale_of(suite).get("phase", ""))


def kill(suite: RunningSuite, name: str) -> None:
    pid = suite.pid(name)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def servers(suite: RunningSuite) -> dict[int, int]:
    """How many cube servers each shard has."""
    return dict(Counter(place.shard for place in suite.suite.cube.places.values()))


def answered_by(askers: list[Asker], version: int) -> bool:
    return all(asker.seen[version] for asker in askers)


def test_two_shards_become_three_while_transfer_and_servers_are_killed_and_a_version_is_published(
    suite: RunningSuite, versions: ModelVersions, record_property: Callable[[str, object], None]
) -> None:
    before = {suite.pid(f"{role}.{rank}") for role in ("cube", "agent") for rank in suite.suite.cube.places}
    cube, token = suite.suite.cube, suite.suite.token.encode()
    # A reader that does not follow layouts: what it reads from must not be taken from it.
    reader = Cube.connect([[cube.members.address(0)], [cube.members.address(2)]], name=cube.name, token=token)
    with asked(suite, versions) as askers:
        assert reader.get("embedding", PROBE).code == OK
        scaling = Scaling(suite, "--shards", "3")
        # Killed while the new layout gets its rows: what has joined and what has not is in the ledger.
        assert scaling.await_phase("delivering") == "delivering"
        kill(suite, "transfer.0")
        kill(suite, "cube.1")
        kill(suite, "cube.5")
        published = versions.delta()
        eventually(lambda: scale_of(suite).get("readers") == 2 or not scaling.is_alive(), what="one reader left")
        assert scale_of(suite)["phase"] == "moving"
        assert reader.get("embedding", PROBE).code == OK
        reader.close()
        del reader
        assert scaling.result()["shards"] == 3
        eventually(lambda: answered_by(askers, published), what=f"answers by version {published}")
        assert servers(suite) == {0: 2, 1: 2, 2: 2}
        assert not any(lives(pid) for pid in before), "a server of the old layout lives"
        # The new layout is delivered to as the old one was.
        later = versions.base()
        eventually(lambda: answered_by(askers, later), what=f"answers by version {later}")
    counts = totalled(askers)
    slowest = max(asker.slowest for asker in askers)
    text = f"2 to 3 shards: {counts['answers']:,} answers, 0 mixed, 0 wrong, 0 failed; slowest {slowest:.3f} s"
    record_property("serving counts", text)
    print(text)


def test_replicas_come_and_go_and_a_shard_less_is_enough(suite: RunningSuite, versions: ModelVersions) -> None:
    with asked(suite, versions) as askers:
        shards = len(servers(suite))
        done = Scaling(suite, "--replicas", "3").result()
        assert (done["shards"], done["replicas"]) == (shards, 3)
        assert servers(suite) == dict.fromkeys(range(shards), 3)
        Scaling(suite, "--replicas", "1").result()
        assert servers(suite) == dict.fromkeys(range(shards), 1)
        Scaling(suite, "--shards", str(shards - 1), "--replicas", "2").result()
        assert servers(suite) == dict.fromkeys(range(shards - 1), 2)
        published = versions.delta()
        eventually(lambda: answered_by(askers, published), what=f"answers by version {published}")


def test_a_random_schedule_of_sizes_versions_and_kills(suite: RunningSuite, versions: ModelVersions) -> None:
    print(f"CLICKLINE_CHAOS_SEED={SEED}")
    draw = random.Random(SEED)
    with asked(suite, versions) as askers:
        for _ in range(3):
            shards, replicas = draw.randint(1, 4), 2
            scaling = Scaling(suite, "--shards", str(shards), "--replicas", str(replicas))
            for _ in range(draw.randint(0, 3)):
                scaling.await_phase(draw.choice(["starting", "delivering", "moving", "retiring"]), "done")
                # One of two replicas at most, of any layout: the other answers for it.
                victims = ["transfer.0", *(f"agent.{rank}" for rank in suite.suite.cube.places)]
                victims += [f"cube.{rank}" for rank, place in suite.suite.cube.places.items() if place.replica == 1]
                name = draw.choice(victims)
                if suite.pid(name):
                    kill(suite, name)
                if draw.random() < 0.5:
                    versions.delta()
            assert scaling.result()["shards"] == shards
        last = versions.delta()
        eventually(lambda: answered_by(askers, last), what=f"answers by version {last}")
    assert servers(suite) == dict.fromkeys(range(shards), replicas)
