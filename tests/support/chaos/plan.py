"""Which fault comes when: drawn from one seed before anything runs, so that a run can be repeated.

A lane is a part of the suite whose faults come one after the other: both replicas of shard 0, the predictor's workers,
training, and so on. Faults of different lanes may overlap. What is drawn is a moment, a kind, a target and a number
from which the fault draws its own details; carrying it out later than planned does not change the plan.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of fault in a lane, and what it may hit."""

    kind: str
    targets: Sequence[str]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault to inject. `at` is in seconds after the start."""

    at: float
    lane: str
    kind: str
    target: str
    seed: int

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True, slots=True)
class Lane:
    """Faults that come one after the other, `every` seconds on average."""

    name: str
    every: float
    choices: tuple[Choice, ...]


def draw_plan(seed: int, seconds: float, lanes: Iterable[Lane]) -> list[PlannedFault]:
    """All faults of a run, by time. Each lane has its own generator: leaving one out does not change the others."""
    plan: list[PlannedFault] = []
    for lane in lanes:
        rng = random.Random(f"{seed} {lane.name}")
        weights = [choice.weight for choice in lane.choices]
        at = rng.uniform(0.2, 1.0) * lane.every
        round_robin = _each_once(lane.choices, rng)
        while at < seconds:
            # Every kind comes up once before any is left to chance, so that short runs are not blind to some.
            choice = round_robin.pop() if round_robin else rng.choices(lane.choices, weights)[0]
            plan.append(PlannedFault(at, lane.name, choice.kind, rng.choice(choice.targets), rng.getrandbits(32)))
            at += lane.every * rng.uniform(0.5, 1.5)
    return sorted(plan, key=lambda fault: fault.at)


def _each_once(choices: Sequence[Choice], rng: random.Random) -> list[Choice]:
    found = list(choices)
    rng.shuffle(found)
    return found


def without(lanes: Iterable[Lane], kinds: Mapping[str, str]) -> list[Lane]:
    """The lanes without some kinds (by name, with the reason); a lane that has none left goes."""
    kept = [
        Lane(lane.name, lane.every, tuple(choice for choice in lane.choices if choice.kind not in kinds))
        for lane in lanes
    ]
    return [lane for lane in kept if lane.choices]
