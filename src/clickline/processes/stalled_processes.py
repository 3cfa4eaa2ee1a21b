"""Processes that stand still, and which of them may be killed.

A process without replicas is killed as soon as it stands still. One of several replicas is killed only while all the
others are well, so that the supervisor itself never takes two of them away at once: what looks like standing still may
have been a machine that was too busy, and the slow replica may be the last that answers. If none of the others answers
either, there is nothing to keep: when all stand still, the one that has for longest is killed first and the rest when
it is well again; when the others are away and do not come back, the limit is four times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clickline.processes.process import Process


def kill_stalled(processes: Sequence[Process]) -> Iterator[Process]:
    """Look at every heartbeat; kill the processes that stand still and may be killed, and yield each of them.

    Call it a few times a second.
    """
    stalled = []
    for process in processes:
        if process.heartbeat is not None and process.alive and not process.stood_still:
            process.heartbeat.look(process.pid)
            if process.heartbeat.stalled:
                stalled.append((process.heartbeat.silent, process))
    # The longest silent first: killing one may forbid to kill the next of its replicas.
    for _, process in sorted(stalled, key=lambda each: each[0], reverse=True):
        if _may_be_killed(process, processes):
            process.kill_for_standing_still()
            yield process


def others_of(process: Process, processes: Sequence[Process]) -> list[Process]:
    """The other replicas of what it serves."""
    name = process.spec.replicas
    return [each for each in processes if each is not process and name and each.spec.replicas == name]


def _may_be_killed(process: Process, processes: Sequence[Process]) -> bool:
    others = others_of(process, processes)
    # True for a process without replicas, too: `others` is empty then.
    if all(other.well for other in others):
        return True
    if all(other.alive and not other.stood_still and _stalls(other) for other in others):
        return True  # they come by the length of their silence: the others wait until this one is well again
    return process.heartbeat is not None and process.heartbeat.long_stalled


def _stalls(process: Process) -> bool:
    return process.heartbeat is not None and process.heartbeat.stalled
