"""Clients that never stop asking, over many switches of the version, while replicas and the predictor's workers are
killed: each answer is what the version it names predicts, recomputed from that version's files; none is missing.
`PROMISE_PREDICTION_SWITCHES=500` runs it for longer, `PROMISE_SEED` along another way."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.cubes.cube_processes import CubeProcesses
from support.cubes.killers import Killer
from support.eventually import eventually
from support.programs import unpinned_predictor
from support.serving.prediction_clients import Asker, PlainAsker, totalled, trouble_of
from support.serving.predictor_processes import COMMAND, PredictorProcess, WorkerKiller
from support.versions.model_versions import ModelVersions

pytestmark = pytest.mark.heavy
SWITCHES = int(os.environ.get("PROMISE_PREDICTION_SWITCHES", "30"))
SEED = int(os.environ.get("PROMISE_SEED", "5"))
CLIENTS = 4
PLAIN = 2
"""Of the clients, that ask each request once."""


class Suite:
    """A cube of two shards with two replicas, a predictor with two workers, and clients."""

    def __init__(self, directory: Path, checkpoint: Path) -> None:
        self.versions = ModelVersions(directory / "store", checkpoint, seed=SEED)
        self.cube = CubeProcesses(directory / "processes", self.versions, shards=2, copies=2, wait=0.3)
        self.askers: list[Asker] = []
        self.killers: list[Killer | WorkerKiller] = []
        self._random = random.Random(SEED)
        self.counts: Counter[str] = Counter(bases=0, deltas=0, rollbacks=0)

    def start(self, *, command: Sequence[str]) -> None:
        self.cube.start_all()
        self.cube.await_all(1)
        self.predictor = PredictorProcess(self.cube.directory, self.cube, workers=2, command=command)
        self.askers = [
            (PlainAsker if n < PLAIN else Asker)(self.predictor.url, self.versions, seed=100 * SEED + n)
            for n in range(CLIENTS)
        ]
        for asker in self.askers:
            asker.start()

    def start_killing(self) -> None:
        self.killers = [Killer(self.cube, shard, seed=SEED) for shard in range(2)]
        self.killers.append(WorkerKiller(self.predictor, seed=SEED))
        for killer in self.killers:
            killer.start()

    def stop_killing(self) -> None:
        """What was killed lives again after this."""
        while self.killers:
            killer = self.killers.pop()
            killer.end()
            self.counts.update(killer.counts)

    def switch(self, kind: str = "") -> None:
        """One more version, or one back; and wait until clients have seen it."""
        kind = kind or self._random.choices(["bases", "deltas", "rollbacks"], [20, 65, 15])[0]
        version = 0
        if kind == "rollbacks":
            answer = self.cube.post("/rollback", {})
            version = answer["data"]["version"] if answer["success"] == "0" else 0
            kind = kind if version else "deltas"  # the one server that had it was killed: nothing to go back to
        if not version:
            version = self.versions.base() if kind == "bases" else self.versions.delta()
        seen = [asker.seen[version] for asker in self.askers]
        self.cube.await_version(version)
        eventually(
            lambda: sum(asker.seen[version] for asker in self.askers) > sum(seen),
            what=f"an answer of version {version}",
        )
        self.counts.update({kind: 1, "switches": 1})

    def close(self) -> None:
        try:
            self.stop_killing()
        finally:
            self._close()

    def _close(self) -> None:
        for asker in self.askers:
            asker.end()
        if hasattr(self, "predictor"):
            self.predictor.close()
        self.cube.close()

    def total(self) -> Counter[str]:
        return self.counts + totalled(self.askers)


@contextmanager
def serving(directory: Path, checkpoint: Path, *, command: Sequence[str] = COMMAND) -> Iterator[Suite]:
    suite = Suite(directory, checkpoint)
    try:
        suite.start(command=command)
        yield suite
    finally:
        suite.close()


def test_every_answer_is_what_the_version_it_names_predicts(
    tmp_path: Path, checkpoint: Path, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    with serving(tmp_path, checkpoint) as suite:
        suite.start_killing()
        suite.switch("deltas")
        suite.switch("rollbacks")
        while suite.counts["switches"] < SWITCHES:
            suite.switch()
        suite.stop_killing()
    total = suite.total()
    seen = {version for asker in suite.askers for version in asker.seen}
    total.update(clients=CLIENTS, versions=len(seen), published=suite.versions.last)
    record_property("predictions over switches", dict(total))
    slowest = max(asker.slowest for asker in suite.askers)
    print(f"\n{dict(total)}, slowest answer {slowest:.3f} s, {time.monotonic() - began:.1f} s in all")
    trouble = trouble_of(suite.askers)
    print(*(line for line in trouble if "HTTP" in line), sep="\n")
    assert (total["mixed"], total["wrong"], total["failed"]) == (0, 0, 0), trouble[:10]
    # Asked once, a request is lost with the worker that was answering it, or that held the connection; no other is.
    assert total["lost_once"] <= PLAIN * total["workers_killed"], trouble[:10]
    assert total["bases"] + total["deltas"] + total["rollbacks"] == total["switches"] == SWITCHES
    assert total["rollbacks"] > 0
    assert total["servers_killed"] > 0
    assert total["workers_killed"] > 0
    assert len(seen) == suite.versions.last
    assert total["answers"] > 10 * SWITCHES


def test_without_a_version_for_each_request_predictions_mix_and_are_found_out(
    tmp_path: Path, checkpoint: Path, record_property: Callable[[str, object], None]
) -> None:
    with serving(tmp_path, checkpoint, command=unpinned_predictor.COMMAND) as suite:
        for _ in range(SWITCHES):
            suite.switch("deltas")
            if suite.total()["mixed"] >= 3:
                break
    total = suite.total()
    counts = {f"unpinned_{name}": total[name] for name in ("answers", "mixed", "wrong", "switches")}
    record_property("predictions over switches", counts)
    print(f"\n{dict(total)}")
    assert total["mixed"] >= 3, "the same checks find nothing in predictions that nobody keeps together"
