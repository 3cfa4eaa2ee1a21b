"""Training runs one after the other: 2 servers and 2 trainers, every strategy in turn, and the books of each.

A run is made in one of two forms, in turn. Launched: `clickline train` starts and restarts everybody; if it ends before
it is done (its own process was killed, the disk was full) it is resumed. In parts: each process is started by itself,
behind links, and started again when it dies, the coordinator included.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from clickline.data.synthetic import write_criteo
from support.chaos.books import Books
from support.chaos.workload.links import Links
from support.clusters import Parts, Run, Watched, settings_for

STRATEGIES = ("async", "sync", "half_async", "geo")
ROWS, EPOCHS = 3000, 2
STANDSTILL = 100.0
"""Seconds without any progress and without a fault, after which a run hangs."""
REST_AFTER = 30.0
"""Seconds without progress after which a run has a rest from faults, until it goes on or is found to hang."""
_AGAIN_AFTER = 0.3
_MOST_RESTARTS = 200
_MOST_RESUMES = 30
_UNWRITABLE = 6
"""The exit code of a coordinator that could not write: its message says to resume the run."""
_IN_USE = 7
"""The exit code while a twin, which came when the run had just been killed, has its directory."""
_KEEP = 3
"""Runs that have ended, whose directories stay."""


def write_data(directory: Path, seed: int) -> dict[str, str]:
    directory.mkdir(parents=True)
    write_criteo(directory / "data.tsv", rows=ROWS + 800, seed=seed, ids=25_000, test_rows=800)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}


def job_settings(data: dict[str, str], directory: Path, name: str, **changes: Any) -> dict[str, Any]:
    """A piece is never blamed for those that chaos kills at it; whoever is silent for long is taken for dead."""
    cluster = {
        "piece_bytes": 30_000,
        "piece_attempts": 1000,
        "restarts": 10_000,
        "warn_after": 2.0,
        "evict_after": 8.0,
        "deadline": 5.0,
        "retry_for": 90.0,
        "start_timeout": 90.0,
        "transport": "unix",
    }
    settings = settings_for(
        data,
        directory,
        name,
        train={"epochs": EPOCHS, "batch_size": 50},
        checkpoint={"every_steps": 25, "keep": 3},
        cluster=cluster,
    )
    return {**settings, **changes}


class TrainingRun:
    """One run, from its start to its books."""

    def __init__(self, number: int, data: dict[str, str], directory: Path, books: Books, links: Links) -> None:
        self.strategy = STRATEGIES[number % len(STRATEGIES)]
        self.launched = (number + number // len(STRATEGIES)) % 2 == 0
        self.name = f"run-{number:03d}-{self.strategy}"
        self._settings = job_settings(data, directory, self.name, strategy=self.strategy)
        self._books, self._links = books, links
        self.run: Watched | None = None
        self.ended = False
        self.restarts = 0
        self._progress: tuple[Any, ...] = ()
        self._progressed = time.monotonic()
        self._hit = 0.0
        """When a fault was last injected into it."""

    def __str__(self) -> str:
        return f"{self.name}, {'launched' if self.launched else 'in parts'}"

    @property
    def directory(self) -> Path:
        return Path(self._settings["output"]) / self.name

    def hit(self) -> None:
        """A fault is injected, or is over."""
        self._hit = time.monotonic()

    @property
    def needs_rest(self) -> bool:
        """It has not progressed for a while: on a slow machine roles may be killed faster than they start."""
        return not self.ended and time.monotonic() - self._progressed > REST_AFTER

    def pid(self, name: str) -> int | None:
        """Of `coordinator.0`, `pserver.N` or `trainer.N`, if it lives."""
        if self.run is None:
            return None
        if isinstance(self.run, Parts):
            process = self.run.started.get(name)
            return process.pid if process is not None and process.poll() is None else None
        if name == "coordinator.0":
            return self.run.process.pid if self.run.process.poll() is None else None
        members = self.run.status().get("members", [])
        return next((one["pid"] for one in members if one["name"] == name and one["state"] != "dead"), None)

    def train(self, over: threading.Event) -> bool:
        """To the end. Whether the books are right. `over` does not end it: what was begun is finished."""
        while not self._has_room():  # for the job's file, which we write ourselves
            time.sleep(0.1)
        try:
            done = self._launched(over) if self.launched else self._in_parts()
        finally:
            self.ended = True
            with suppress(Exception):
                self.run.close()
        return done and self._balanced()

    def _has_room(self) -> bool:
        probe = self.directory.parent / f".{self.name}.probe"
        try:
            probe.write_bytes(bytes(1 << 20))
        except OSError:
            return False
        finally:
            probe.unlink(missing_ok=True)
        return True

    def _launched(self, over: threading.Event) -> bool:
        arguments: tuple[str, ...] = ()
        for _ in range(_MOST_RESUMES):
            self.run = Run(self._settings, *arguments)
            while self.run.process.poll() is None:
                if self._stands_still():
                    self.run.process.send_signal(signal.SIGKILL)
                    self.run.process.communicate()
                    return False
                time.sleep(0.1)
            out, err = self.run.process.communicate()
            if self.run.process.returncode == 0:
                return True
            self._books.count(resumed=1)
            last = (err.strip() or out.strip() or "nothing was said").splitlines()[-1]
            self._books.event(f"{self.name} ended with {self.run.process.returncode} and is resumed: {last}")
            arguments = ("--resume",) if self.run.checkpoints() else ("--fresh",)
            self._progressed = time.monotonic()
            over.wait(3.0 if self.run.process.returncode == _IN_USE else 0.5)
        self._books.promise_broken("training ends", f"{self} was resumed {_MOST_RESUMES} times: {last}")
        return False

    def _in_parts(self) -> bool:
        names = []

        def seen_as(target: str) -> str:
            names.append(f"pserver.{len(names)}")
            return self._links.add(f"train.{names[-1]}", target)

        self.run = Parts(self._settings, seen_as=seen_as)
        direct, through = self.run.coordinator, self._links.add("train.coordinator.0", self.run.coordinator)
        try:
            self.run.shared["CLICKLINE_COORDINATOR"] = through
            self.run.start_all()
            return self._look_after(self.run, direct)
        finally:
            for name in [*names, "coordinator.0"]:
                self._links.remove(f"train.{name}")

    def _look_after(self, run: Parts, _direct: str) -> bool:
        again: dict[str, float] = {}
        restart: list[str] = []
        """What the next coordinator is told."""
        while True:
            for name, process in list(run.started.items()):
                code = process.poll()
                if code is None or name in again:
                    continue
                again[name] = time.monotonic() + _AGAIN_AFTER
                if code:
                    self._books.event(f"{name} of {self.name} ended with {code}")
                if name == "coordinator.0" and code == _UNWRITABLE:
                    restart = ["--resume"] if run.checkpoints() else ["--fresh"]
                    self._books.count(resumed=1)
            if run.started["coordinator.0"].poll() == 0:
                self._see_out(run)
                return True
            for name in [name for name, when in again.items() if time.monotonic() >= when]:
                del again[name]
                role, _, rank = name.rpartition(".")
                self.restarts += 1
                run.start(role, int(rank), *(restart if role == "coordinator" else []))
                restart = [] if role == "coordinator" else restart
            if self.restarts > _MOST_RESTARTS:
                self._books.promise_broken("training ends", f"{self}: {self.restarts} restarts")
                return False
            if self._stands_still():
                return False
            time.sleep(0.1)

    @staticmethod
    def _see_out(run: Parts) -> None:
        """The coordinator is done: the others have a moment to notice."""
        until = time.monotonic() + 20
        for process in run.started.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, until - time.monotonic()))

    def _stands_still(self) -> bool:
        status = self.run.status()
        pieces = status.get("pieces") or {}
        progress = (status.get("rows"), status.get("step"), status.get("phase"), status.get("epoch"), str(pieces))
        if progress != self._progress:
            self._progress, self._progressed = progress, time.monotonic()
        if time.monotonic() - max(self._progressed, self._hit) < STANDSTILL:
            return False
        members = [(one["name"], one["state"]) for one in status.get("members", [])]
        self._books.count(hung=1)
        self._books.promise_broken(
            "training goes on", f"{self} stands still for {STANDSTILL:g} s: {progress}, members {members}"
        )
        return True

    def _balanced(self) -> bool:
        result = self.run.result()
        rows, repeated = result.get("rows", 0), result.get("repeated_rows", 0)
        wanted = ROWS * EPOCHS
        self._books.count(
            runs=1,
            rows_in=wanted,
            rows_trained=rows,
            rows_repeated=repeated,
            pushes_lost=result.get("lost_pushes", 0),
            requests_retried=result.get("retries", 0),
            pieces_set_aside=len(result.get("set_aside", ())),
            **{f"runs: {self.strategy}": 1},
        )
        auc = result.get("test", {}).get("auc", 0.0)
        self._books.event(
            f"{self} has ended: {rows} rows, {repeated} repeated, {result.get('lost_pushes', 0)} pushes lost, "
            f"AUC {auc:.3f}",
            result={key: result.get(key) for key in ("rows", "repeated_rows", "lost_pushes", "set_aside", "faults")},
        )
        if rows - repeated != wanted or result.get("set_aside"):
            self._books.promise_broken(
                "rows in = rows trained - repeats stated",
                f"{self}: {wanted} in, {rows} trained, {repeated} repeated, set aside {result.get('set_aside')}; "
                f"{json.dumps(result.get('faults', [])[-8:])}",
            )
            return False
        return True


class Trainings(threading.Thread):
    """Run after run until it is told to end; the last one is finished."""

    def __init__(
        self,
        data: dict[str, str],
        directory: Path,
        books: Books,
        links: Links,
        *,
        trained: Callable[[Path], None],
    ) -> None:
        super().__init__(name="trainings", daemon=True)
        self._data, self._directory, self._books, self._links, self._trained = data, directory, books, links, trained
        self._over = threading.Event()
        self.current: TrainingRun | None = None
        self.finished: list[Path] = []
        """Directories of runs that ended well and are still there, newest last."""
        self.busy = threading.Lock()
        """Held by whoever uses the directory of a finished run."""

    def run(self) -> None:
        number = 0
        while not self._over.is_set():
            training = TrainingRun(number, self._data, self._directory, self._books, self._links)
            self._books.event(f"{training} begins")
            self.current = training
            try:
                well = training.train(self._over)
            except Exception as error:
                self._books.promise_broken("training goes on", f"{training}: {error!r}")
                well = False
                self._over.wait(2.0)
            self.current = None
            number += 1
            if well:
                self.finished.append(training.directory)
                self._trained(training.directory)
            with self.busy:
                while len(self.finished) > _KEEP:
                    shutil.rmtree(self.finished.pop(0), ignore_errors=True)

    def end(self) -> None:
        self._over.set()
        self.join()
