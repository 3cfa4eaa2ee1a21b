"""A command that is run on the first host whenever a run has a new checkpoint, such as one that writes it elsewhere.

A checkpoint is held by hard links in the run's `.held` until the command has seen it, since the run itself keeps only
its last ones. `.held` looks like a run's directory to the command, which finds in it by itself what there is to do: one
command runs at a time, and what comes meanwhile is for the next. It may fail without consequence for the training.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from clickline.launch.hosts.host_messages import HostPlan
from clickline.processes.process import Process, Spec

HELD = ".held"
_LOOK_EVERY = 0.2


class CheckpointCommand:
    """Runs the plan's `at_checkpoints`; nothing, if it has none."""

    def __init__(self, plan: HostPlan, *, report: Callable[[str, str], None]) -> None:
        """`report` gets the name of the command's log and a sentence."""
        self._run = Path(plan.output) if plan.at_checkpoints else None
        self._report = report
        self._seen: set[str] = set()
        self._given: list[Path] = []
        """Held checkpoints that the command, which runs, was started for."""
        name = re.sub(r"\W", "_", "-".join(plan.at_checkpoints[:2]))
        self._process = Process(
            Spec(
                role=name,
                rank=0,
                argv=[sys.executable, "-m", "clickline", *plan.at_checkpoints],
                env={},
                log=Path(plan.directory) / "log" / f"{name}.0.log",
                directory=Path(plan.workspace) if plan.workspace else None,
            )
        )

    def poll(self) -> None:
        """Hold new checkpoints; start the command if there are some and it does not run."""
        if self._run is None:
            return
        places = {place.name: place for place in (self._run / "checkpoints").glob("step-*")}
        for name in sorted(places.keys() - self._seen):
            _hold(places[name], self._run / HELD)
        self._seen = set(places)  # one that goes and comes back is another: the run went back to an earlier one
        if not self._is_running() and (held := _held(self._run)):
            self._given = held
            self._process.start()

    def finish(self, *, until: Callable[[float], bool]) -> None:
        """Run it for the last checkpoints, to its end; `until` waits for so many seconds and says whether to stop."""
        while self._run is not None and not until(_LOOK_EVERY):
            self.poll()
            if not self._is_running() and not _held(self._run):
                return

    def stop(self) -> None:
        """End the command, whatever it does, and hold nothing any more."""
        self._process.kill()
        while self._process.alive and self._process.ended() is None:
            time.sleep(_LOOK_EVERY)
        if self._run is not None:
            shutil.rmtree(self._run / HELD, ignore_errors=True)

    def _is_running(self) -> bool:
        code = self._process.ended()
        if code is not None:
            # Also if it failed: it would fail again for the same ones, and they take up the disk.
            for place in self._given:
                shutil.rmtree(place, ignore_errors=True)
        if code:
            last = " ".join(self._process.last_log_lines(1)) or "it said nothing"
            self._report(self._process.spec.name, f"exit code {code}: {last}; the training goes on")
        return self._process.alive


def _held(run: Path) -> list[Path]:
    return list((run / HELD / "checkpoints").glob("step-*"))


def _hold(checkpoint: Path, held: Path) -> None:
    """Link a checkpoint's files, whole or not at all: it may be removed at any time, and the command may be looking."""
    (held / "checkpoints").mkdir(parents=True, exist_ok=True)
    if not (held / "code").is_symlink():
        (held / "code").symlink_to("../code")  # the user's own files, which the run has copies of
    aside, place = held / checkpoint.name, held / "checkpoints" / checkpoint.name
    shutil.rmtree(aside, ignore_errors=True)
    try:
        shutil.copytree(checkpoint, aside, copy_function=os.link)
        aside.rename(place)
    except (OSError, shutil.Error):
        shutil.rmtree(aside, ignore_errors=True)
