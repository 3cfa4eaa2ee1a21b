"""Which parts of the suite are hit by which kinds of fault, how often, and when a part is whole."""

from __future__ import annotations

from support.chaos.plan import Choice, Lane
from support.chaos.workload.linked_suite import REPLICAS, SHARDS

_REPLICAS = [f"{role}.{rank}" for role in ("cube", "agent") for rank in range(SHARDS * REPLICAS)]
_TRAINING = ["pserver.0", "pserver.1", "trainer.0", "trainer.1"]


def lanes(pace: float = 1.0) -> list[Lane]:
    """`pace` 2 has twice as many faults a minute."""
    found = [_shard(shard) for shard in range(SHARDS)]
    found += [_workers(), _delivery(), _training(), _training_twins(), *(_strangers(number) for number in range(2))]
    return [Lane(lane.name, lane.every / pace, lane.choices) for lane in found]


def _shard(shard: int) -> Lane:
    ranks = range(shard * REPLICAS, (shard + 1) * REPLICAS)
    servers, agents = ([f"{role}.{rank}" for rank in ranks] for role in ("cube", "agent"))
    return Lane(
        f"shard {shard}",
        6.0,
        (
            Choice("kill", servers, 3),
            Choice("kill", agents, 2),
            Choice("stop", servers, 2),
            Choice("stop", agents, 1),
            Choice("cut", servers, 2),
            Choice("cut", agents, 1),
            Choice("stall", servers, 2),
            Choice("stall", agents, 1),
            Choice("slow", servers, 2),
            Choice("full disk", [f"deploy.{rank}" for rank in ranks], 1),
            Choice("flip in deployed rows", [f"deploy.{rank}" for rank in ranks], 1),
            Choice("twin", servers, 0.5),
            Choice("twin", agents, 0.5),
        ),
    )


def _workers() -> Lane:
    return Lane(
        "workers",
        6.0,
        (
            Choice("kill worker", ["predictor.0"], 3),
            Choice("stop worker", ["predictor.0"], 2),
            Choice("twin", ["predictor.0"], 0.5),
        ),
    )


def _delivery() -> Lane:
    files, transfer = ["fileserver.0"], ["transfer.0"]
    return Lane(
        "delivery",
        5.0,
        (
            Choice("kill", files, 2),
            Choice("kill", transfer, 2),
            Choice("stop", files, 1),
            Choice("stop", transfer, 1),
            Choice("cut", files, 1),
            Choice("stall", files, 1),
            Choice("slow", files, 1),
            Choice("full disk", ["store"], 1),
            Choice("full disk", ["builds"], 1),
            Choice("flip in build", ["builds"], 2),
            Choice("flip in version", ["store"], 2),
            Choice("kill publisher", ["publisher"], 1),
            Choice("twin", transfer, 0.5),
            Choice("twin of the suite", ["suite"], 0.3),
        ),
    )


def _training() -> Lane:
    links = ["train.pserver.0", "train.pserver.1", "train.coordinator.0"]
    return Lane(
        "training",
        5.0,
        (
            Choice("kill in training", _TRAINING, 3),
            Choice("kill in training", ["coordinator.0"], 0.4),
            Choice("stop in training", [*_TRAINING, "coordinator.0"], 2),
            Choice("cut", links, 2),
            Choice("stall", links, 1),
            Choice("slow", links, 1),
            Choice("full disk", ["runs"], 0.5),
        ),
    )


def _training_twins() -> Lane:
    return Lane(
        "training's directory",
        25.0,
        (
            Choice("twin in training", _TRAINING, 2),
            Choice("twin of a run", ["run"], 1),
            Choice("flip in checkpoint", ["checkpoint"], 1),
        ),
    )


def _strangers(number: int) -> Lane:
    targets = ["predictor.0"] * 6 + ["fileserver.0", "transfer.0", *_REPLICAS, "pserver.0", "pserver.1"]
    return Lane(f"strangers {number}", 5.0, (Choice("hostile client", targets),))
