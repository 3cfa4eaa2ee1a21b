"""A second process with the name, the directory or the port of a living one: it must be refused and change nothing."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from clickline.net.listening_sockets import VARIABLE as LISTENER
from clickline.train.run_files.run_lock import FILE
from support.chaos.faults.fault import Fault, NotNow
from support.clusters import Parts, free_ports
from support.processes import ENVIRONMENT

_REFUSED = "ended with 7"
_TOOK_OVER = "took over what had been killed"
_PATIENCE = 90.0
"""Seconds for a twin to notice. One that still lives then is killed."""


class Twin(Fault):
    """What all of them do: start, wait, and tell how it ended."""

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        may_have: Callable[[int], bool] = lambda _: False,
        otherwise: str = "ran beside",
    ) -> str:
        """`may_have`, asked with the twin's process number: whether it has the place by right, the first being dead."""
        log = self.workload.scratch / "twins.log"
        with log.open("a", encoding="utf-8") as file:
            file.write(f"--- {self.workload.books.elapsed:.1f} {self.target}: {' '.join(argv)}\n")
            file.flush()
            process = subprocess.Popen(argv, env={**ENVIRONMENT, **env}, stdout=file, stderr=file)
        end = time.monotonic() + _PATIENCE
        try:
            while process.poll() is None:
                if self.over.wait(0.05):
                    raise NotNow("the run is over")
                if time.monotonic() > end:
                    return _TOOK_OVER if may_have(process.pid) else otherwise
            return f"ended with {process.returncode}"
        finally:
            process.kill()
            process.wait()


class TwinOfComponent(Twin):
    """The same command once more: same directory, same address."""

    name = "twin"

    def inject(self) -> str:
        spec = self.workload.suite.specs[self.target]
        argv = list(spec.argv)
        ready = argv.index("--ready-file") + 1
        argv[ready] = str(self.workload.scratch / "twin-ready.json")
        outcome = self.start(argv, {name: value for name, value in spec.env.items() if name != LISTENER})
        if outcome != _REFUSED:
            self.workload.books.promise_broken("one process for each directory", f"a second {self.target} {outcome}")
        return outcome


class TwinOfSuite(Twin):
    """`clickline up` with the state directory of a suite that is up."""

    name = "twin of the suite"

    def inject(self) -> str:
        argv = [sys.executable, "-m", "clickline", "up", "--state", str(self.workload.suite.state), "--port", "0"]
        outcome = self.start(argv, {})
        if outcome != _REFUSED:
            self.workload.books.promise_broken("one suite for a directory", f"a second `up` {outcome}")
        return outcome


class TwinInTraining(Twin):
    """Another process of the same role and rank."""

    name = "twin in training"

    def inject(self) -> str:
        training = self.workload.training()
        role, _, rank = self.target.rpartition(".")
        if isinstance(training.run, Parts):
            env = {**training.run.shared, "CLICKLINE_ROLE": role, "CLICKLINE_RANK": rank}
        else:
            pid = self.workload.training_pid(self.target)
            env = _environment_of(pid)
        if role == "pserver":  # elsewhere, as one that was started on another host for one that was cut off
            env |= {"CLICKLINE_BIND": f"tcp:127.0.0.1:{free_ports(1)[0]}"}
        job = training.directory.parent / f"{training.directory.name}.yaml"
        run = training.run

        def joined(pid: int) -> bool:
            members = run.status().get("members", [])
            return any(one["name"] == self.target and one["pid"] == pid for one in members)

        command = [sys.executable, "-m", "clickline", role, str(job)]
        outcome = self.start(command, env, may_have=joined, otherwise="was not let in")
        return "the run ended first" if outcome == "ended with 0" else outcome


class TwinOfRun(Twin):
    """`clickline train` of a job that is being trained."""

    name = "twin of a run"

    def inject(self) -> str:
        training = self.workload.training()
        if training.run.status().get("phase") != "training":
            raise NotNow("it has not begun")
        job = training.directory.parent / f"{training.directory.name}.yaml"
        argument = self.random.choice(["--resume", "--fresh", "--json"])
        lock = training.directory / FILE

        def holds(pid: int) -> bool:
            with suppress(OSError, ValueError):
                return bool(json.loads(lock.read_bytes())["pid"] == pid)
            return False

        command = [sys.executable, "-m", "clickline", "train", str(job), argument]
        thrown_away = self.workload.publications.thrown_away
        if argument == "--fresh":  # it may come when the run has just ended, and begin it again by right
            thrown_away.add(training.directory)
        outcome = self.start(command, {}, may_have=holds)
        if outcome == _REFUSED:
            thrown_away.discard(training.directory)
        return _TOOK_OVER if outcome == "ended with 0" else outcome


def _environment_of(pid: int) -> dict[str, str]:
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes().decode()
    except OSError:
        raise NotNow("it has just ended") from None
    pairs = dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)
    return {key: value for key, value in pairs.items() if key.startswith("CLICKLINE_") and "LAUNCHER" not in key}
