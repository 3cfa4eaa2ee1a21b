"""A predictor of two workers, with rows from a cube, is asked without a pause while its version changes all the time:
does it keep what it should let go?

A minute by default, hours by `make soak`. Memory, descriptors and latency are sampled for each version, their slopes
printed. Memory and descriptors must stay; how long answers take is only told, since it says as much about the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from support.cubes.cube_processes import CubeProcesses
from support.eventually import eventually
from support.serving.prediction_clients import Asker, PlainAsker, totalled, trouble_of
from support.serving.predictor_processes import PredictorProcess
from support.versions.model_versions import ModelVersions

pytestmark = pytest.mark.heavy
SECONDS = float(os.environ.get("SOAK_SECONDS", "60"))
BASE_EVERY = 10
"""Versions from one base to the next; those between are deltas."""
MEMORY_LEEWAY, DESCRIPTOR_LEEWAY = 16.0, 8
"""MiB and descriptors of both workers by which the end may lie above the middle: allocators and connections are not
that exact."""


class TimedAsker(Asker):
    """Also keeps how long answers took, until somebody asks."""

    def __init__(self, url: str, versions: ModelVersions, *, seed: int) -> None:
        super().__init__(url, versions, seed=seed, pause=0.001)
        self._taken: list[float] = []

    def noted(self, seconds: float) -> None:
        self._taken.append(seconds)

    def taken(self) -> list[float]:
        found, self._taken = self._taken, []
        return found


def test_memory_and_descriptors_stay_over_many_versions(
    tmp_path: Path, checkpoint: Path, record_property: Callable[[str, object], None]
) -> None:
    versions = ModelVersions(tmp_path / "store", checkpoint, seed=7)
    cube = CubeProcesses(tmp_path / "processes", versions, shards=2, copies=1, wait=0.3)
    askers: list[TimedAsker] = []
    with ExitStack() as stack:
        stack.callback(cube.close)
        cube.start_all()
        cube.await_all(1)
        predictor = PredictorProcess(cube.directory, cube, workers=2)
        stack.callback(predictor.close)
        for number in range(2):
            askers.append(TimedAsker(predictor.url, versions, seed=number))
        plain = PlainAsker(predictor.url, versions, seed=2)
        for asker in (*askers, plain):
            asker.start()
            stack.callback(asker.end)
        workers = predictor.pids()
        samples = _sampled(workers, versions, askers)
        assert predictor.pids() == workers, "a worker was lost"
    counts = totalled([*askers, plain])
    seconds, memory, descriptors, latency = samples.T
    half = len(samples) // 2
    told = ", ".join(
        f"{name} {np.median(column[half:]):.4g} {unit}, {_slope(seconds[half:], column[half:]):+.3g} a minute"
        for name, column, unit in (
            ("memory", memory, "MiB"),
            ("descriptors", descriptors, "open"),
            ("median answer", latency, "us"),
        )
    )
    record_property(
        "serving counts",
        f"soak of {SECONDS:g} s: {counts['answers']:,} answers over {versions.last} versions, {counts['wrong']} wrong, "
        f"{counts['failed']} failed, {counts['failed_once']} of {counts['asked_once']:,} that were asked once; two "
        f"workers and a cube, second half: {told}",
    )
    failures = (counts["wrong"], counts["failed"], counts["failed_once"])
    assert failures == (0, 0, 0), trouble_of([*askers, plain])[:5]
    middle, end = samples[half : half + len(samples) // 4], samples[half + len(samples) // 4 :]
    assert np.median(end[:, 1]) <= np.median(middle[:, 1]) + MEMORY_LEEWAY, memory
    assert end[:, 2].max() <= middle[:, 2].max() + DESCRIPTOR_LEEWAY, descriptors


def _sampled(pids: list[int], versions: ModelVersions, askers: list[TimedAsker]) -> NDArray[np.float64]:
    """[samples, (seconds, MiB and descriptors of all workers, median microseconds)]; a new version before each."""
    began = time.monotonic()
    found = []
    while time.monotonic() < began + SECONDS:
        version = versions.base() if versions.last % BASE_EVERY == 0 else versions.delta()
        eventually(lambda: all(asker.seen[version] > 0 for asker in askers), what=f"version {version}")  # noqa: B023
        taken = [seconds for asker in askers for seconds in asker.taken()]
        found.append(
            (
                time.monotonic() - began,
                sum(map(_anonymous, pids)),
                sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in pids),
                1e6 * np.median(taken),
            )
        )
    assert len(found) >= 8, "too short to say anything; a larger SOAK_SECONDS?"
    return np.array(found)


def _anonymous(pid: int) -> float:
    """MiB of memory that is the process's own: mapped files come and go with the system's mood."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def _slope(seconds: NDArray[np.float64], column: NDArray[np.float64]) -> float:
    return 60 * float(np.polyfit(seconds, column, 1)[0])
