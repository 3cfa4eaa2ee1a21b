"""Disks that are full, and bits that have flipped in files which somebody is going to trust."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from support.bit_flips import build_files, deployed_files, flip_in_any_of, flip_random_bit
from support.chaos.faults.fault import Fault, NotNow
from support.chaos.workload.linked_suite import send
from support.processes import ENVIRONMENT

_DAMAGED_CHECKPOINT = 6


class FullDisk(Fault):
    """Not a block is left, or only a few; then there is room again."""

    name = "full disk"

    def inject(self) -> str:
        disks = self.workload.disks
        if self.target not in disks.names:
            raise NotNow("nothing may be mounted here")
        leave = self.random.choice([0, 0, 4096, 65536])
        disks.fill(self.target, leave=leave)
        try:
            self.hold(0.5, 3.0)
            if not leave:
                disks.fill(self.target)  # what others freed in between
                self.hold(0.2, 1.0)
        finally:
            disks.free(self.target)
        return "filled"


class FlipVersion(Fault):
    """A version is announced whose files differ from its manifest by one bit. It is mended later."""

    name = "flip in version"

    def inject(self) -> str:
        publications = self.workload.publications
        with publications.flipped:
            count = len(publications.flip_outcomes)
            publications.flips_wanted.release()
            end = time.monotonic() + 150
            while len(publications.flip_outcomes) == count:
                publications.flipped.wait(0.5)
                if time.monotonic() > end or not publications.is_alive():
                    raise NotNow("there was no publication in time")
            return publications.flip_outcomes[-1]


class FlipBuild(Fault):
    """A bit flips in a file that transfer has built and agents download. It is mended later, if nobody did."""

    name = "flip in build"

    def inject(self) -> str:
        files = build_files(self.workload.suite.directory / "builds")
        newest = max((path.parent.name for path in files), key=_number, default="")
        flip = flip_in_any_of([path for path in files if path.parent.name == newest], self.random)
        if flip is None:
            raise NotNow("there is no build")
        try:
            self.hold(1.0, 4.0)
        finally:
            still = flip.undo()
        return "mended by us" if still else "replaced by transfer"


class FlipDeployed(Fault):
    """A bit flips in what a cube server has on its disk, and the server is killed: it must not serve it when back."""

    name = "flip in deployed rows"

    def inject(self) -> str:
        suite = self.workload.suite
        rank = self.target.rpartition(".")[2]
        flip = flip_in_any_of(deployed_files(suite.directory / f"cube.{rank}"), self.random)
        pid = suite.pid(f"cube.{rank}")
        if flip is None or pid is None:
            if flip is not None:
                flip.undo()
            raise NotNow(f"cube.{rank} has nothing, or does not run")
        send(pid, signal.SIGKILL)
        return "killed with it"


class FlipCheckpoint(Fault):
    """`clickline train --resume` from a checkpoint with a flipped bit must be refused."""

    name = "flip in checkpoint"

    def inject(self) -> str:
        trainings = self.workload.trainings
        with trainings.busy:
            if not trainings.finished:
                raise NotNow("no run has ended yet")
            run = trainings.finished[0]
            if run == self.workload.publications.publishing:
                raise NotNow("it is being published")
            checkpoints = sorted((run / "checkpoints").glob("step-*"), key=lambda path: int(path.name[5:]))
            if not checkpoints:
                raise NotNow("its checkpoints were thrown away")
            checkpoint = checkpoints[-1]
            files = sorted(path for path in checkpoint.rglob("*") if path.is_file() and path.stat().st_size)
            flip = flip_random_bit(self.random.choice(files), self.random)
            job = run.parent / f"{run.name}.yaml"
            command = [sys.executable, "-m", "clickline", "train", str(job), "--resume", "--set", "train.epochs=3"]
            try:
                code = _code_of(command, within=60)
            finally:
                flip.undo()
        if code == _DAMAGED_CHECKPOINT:
            return "refused"
        self.workload.books.promise_broken(
            "damaged checkpoints are refused", f"{flip}: `train --resume` ended with {code}"
        )
        return f"not refused ({code})"


def _number(name: str) -> int:
    return int(name.partition("_")[0]) if name[:1].isdigit() else 0


def _code_of(command: list[str], *, within: float) -> int | None:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        return process.wait(within)
    except subprocess.TimeoutExpired:
        return None
    finally:
        process.kill()
        process.wait()
