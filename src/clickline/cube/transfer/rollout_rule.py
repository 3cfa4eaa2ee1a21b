"""When a rollout may take its next step: the rule of download → load → switch, apart from its execution.

A step is over when every instance has done it, or when those that have not have been in trouble for longer than the
patience, and each shard has at least one instance that has. An instance that is merely slow is waited for. Nothing is
switched before this holds of loading, so no shard is left without the version that readers are sent to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.ledger import Deployment, Phase


class Decision(Enum):
    """Whether a rollout waits or takes its next step."""

    WAIT = "wait"
    GO = "go"


@dataclass(frozen=True)
class Verdict:
    """A decision, and which instances and shards it is about."""

    decision: Decision
    behind: tuple[str, ...] = ()
    """Instances that have not done the step."""
    bare: tuple[int, ...] = ()
    """Shards without an instance that has."""


def judge_deployment(deployment: Deployment, instances: Sequence[Instance], *, patience: float, now: float) -> Verdict:
    """Whether a rollout may leave the phase that it is in."""
    version, number = deployment.version, deployment.number
    has_done: dict[Phase, Callable[[Instance], bool]] = {
        Phase.DOWNLOADING: lambda instance: instance.has_downloaded(version),
        Phase.LOADING: lambda instance: instance.has_loaded(version),
        Phase.SWITCHING: lambda instance: instance.serves(version, number),
    }
    # An instance that refuses to switch is not left behind: its readers would get two versions at once.
    refusals_count = deployment.phase is Phase.SWITCHING
    return judge(instances, has_done[deployment.phase], patience=patience, now=now, refusals_count=refusals_count)


def judge(
    instances: Sequence[Instance],
    has_done: Callable[[Instance], bool],
    *,
    patience: float,
    now: float,
    refusals_count: bool = False,
) -> Verdict:
    """Whether the next step may begin. With `refusals_count`, all that are alive must have done this one."""
    behind = [instance for instance in instances if not has_done(instance)]
    names = tuple(instance.name for instance in behind)
    shards = {instance.shard for instance in instances}
    bare = tuple(sorted(shards - {instance.shard for instance in instances if has_done(instance)}))
    if not behind:
        return Verdict(Decision.GO)
    # No patience ends the wait for a bare shard: after the switch, its keys could not be read at all.
    if bare or any(_is_waited_for(instance, patience, now, refusals_count) for instance in behind):
        return Verdict(Decision.WAIT, names, bare)
    return Verdict(Decision.GO, names)


def is_stuck(instances: Sequence[Instance], *, patience: float, now: float) -> bool:
    """Whether a rollout waits for an instance that is in trouble: a newer version may then replace it."""
    return any(instance.trouble_since is not None and now - instance.trouble_since > patience for instance in instances)


def _is_waited_for(instance: Instance, patience: float, now: float, refusals_count: bool) -> bool:
    if instance.trouble_since is None or (refusals_count and not instance.dead):
        return True
    return now - instance.trouble_since < patience
