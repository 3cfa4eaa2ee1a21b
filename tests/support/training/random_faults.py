"""Training under random faults: a schedule that follows from a seed, until the run ends, and then the books.

Every process of the run is started here, as a supervisor would, and started again when it dies; between all of them
are proxies, so that any line can be cut. Faults, all on random processes and at random moments:

kill     SIGKILL; another is started in its place
stop     SIGSTOP, and SIGCONT after a while, before or after the others have given it up
replace  SIGSTOP, another process takes its place elsewhere, then SIGCONT: the old one must end with exit code 9
cut      all connections to a server, or to the coordinator, break, and none comes about for a while
twin     a second process of a name that is alive; it must end with exit code 9

`RandomFaults(directory, strategy="async", seed=7, faults=30).run()` returns an `Outcome`. Raises AssertionError if the
run does not end, or fails; the message has the seed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.clusters import Parts, free_ports, settings_for
from support.faulty_proxy import Chances, UnreliableProxy
from support.training.gated_data import SLOTS, gated_settings

KINDS = ("kill", "stop", "replace", "cut", "twin")
REPLACED = 9
FILES, ROWS_PER_FILE, BATCH = 8, 200, 25
CLUSTER = {
    "pservers": 2,
    "trainers": 2,
    "warn_after": 1.5,
    "evict_after": 5,
    "deadline": 2,
    "retry_for": 100,
    "start_timeout": 100,
    "piece_attempts": 1000,  # a piece is innocent, however often its reader is killed
    "piece_bytes": 0,
}


@dataclass
class Outcome:
    """What was done to a run, and what its books say."""

    seed: int
    strategy: str
    faults: Counter[str] = field(default_factory=Counter)
    """By kind and role, such as "kill pserver"."""
    expected: int = 0
    """Rows of the files, times the epochs."""
    rows: int = 0
    repeated: int = 0
    lost_pushes: int = 0
    set_aside: int = 0
    seconds: float = 0.0

    @property
    def balanced(self) -> bool:
        return self.rows == self.expected + self.repeated and self.set_aside == 0

    def summary(self) -> dict[str, int]:
        """For tests/support/summaries/fault_summary.py."""
        return {
            "runs": 1,
            "faults": self.faults.total(),
            "completed": 1,
            "rows": self.rows,
            "lost": max(0, self.expected + self.repeated - self.rows),
            "repeated": self.repeated,
            "pushes": self.lost_pushes,
        }

    def __str__(self) -> str:
        done = ", ".join(f"{count} × {kind}" for kind, count in sorted(self.faults.items()))
        return (
            f"seed {self.seed}, {self.strategy}, {self.seconds:.0f} s: {self.rows:,} rows of {self.expected:,}, "
            f"{self.repeated:,} repeated, {self.set_aside} pieces set aside, {self.lost_pushes:,} pushes lost; {done}"
        )


class RandomFaults:
    """One run of a small job. `faults`: how many at most. `seconds`: roughly how long to train, with nothing wrong."""

    def __init__(
        self,
        directory: Path,
        *,
        strategy: str,
        seed: int,
        faults: int = 20,
        seconds: float = 15.0,
        every: tuple[float, float] = (0.3, 2.0),
        kinds: tuple[str, ...] = KINDS,
        patience: float = 240.0,
    ) -> None:
        """`every`: the shortest and longest pause between two. `patience`: seconds without an end after the last."""
        self._random = random.Random(seed)
        self._most, self._every, self._kinds, self._patience = faults, every, kinds, patience
        nap = 0.05
        epochs = max(2, round(seconds / (FILES * ROWS_PER_FILE / BATCH * nap / CLUSTER["trainers"])))
        pattern = write_slow_files(directory / "data", nap=nap, seed=seed)
        settings = settings_for(
            {"train": "", "test": ""},
            directory,
            f"random-{strategy}-{seed}",
            strategy=strategy,
            cluster=CLUSTER,
            train={"batch_size": BATCH, "epochs": epochs},
            checkpoint={"every_steps": 30, "keep": 2},
        )
        self._run = Parts(gated_settings(settings, pattern))
        self.outcome = Outcome(seed=seed, strategy=strategy, expected=FILES * ROWS_PER_FILE * epochs)
        self._alive: dict[str, list[subprocess.Popen[str]]] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._proxies: dict[str, UnreliableProxy] = {}
        self._stopped: set[int] = set()

    def run(self) -> Outcome:
        """Until the run has ended, and everybody with it."""
        began = time.monotonic()
        try:
            self._start_all()
            self._hurt()
            self._finish()
        finally:
            for process in [process for some in self._alive.values() for process in some]:
                process.kill()
                process.wait()
            for proxy in self._proxies.values():
                proxy.close()
        result = self._run.result()
        self.outcome.rows, self.outcome.repeated = result["rows"], result["repeated_rows"]
        self.outcome.lost_pushes, self.outcome.set_aside = result["lost_pushes"], len(result["set_aside"])
        self.outcome.seconds = time.monotonic() - began
        return self.outcome

    # The schedule

    def _hurt(self) -> None:
        """Faults at random moments, once everybody has joined, as long as the run goes on."""
        self._until(lambda: self._run.status().get("phase") == "training", "training has begun")
        while self.outcome.faults.total() < self._most:
            pause = time.monotonic() + self._random.uniform(*self._every)
            while time.monotonic() < pause:
                if self._look():
                    return
                time.sleep(0.02)
            kind, name = self._random.choice(self._kinds), self._random.choice(sorted(self._alive))
            if getattr(self, f"_{kind}")(name):
                self.outcome.faults[f"{kind} {name.partition('.')[0]}"] += 1

    def _kill(self, name: str) -> bool:
        process = self._alive[name][-1]
        process.kill()
        return True

    def _stop(self, name: str) -> bool:
        process = self._alive[name][-1]
        if process.pid in self._stopped:
            return False
        self._signal(process, signal.SIGSTOP)
        self._in(self._random.choice([0.5, 2.5, 7.0]), lambda: self._signal(process, signal.SIGCONT))
        return True

    def _replace(self, name: str) -> bool:
        process = self._alive[name][-1]
        if name.startswith("coordinator") or len(self._alive[name]) > 1 or process.pid in self._stopped:
            return False
        self._signal(process, signal.SIGSTOP)
        self._start(name, elsewhere=True)
        self._in(self._random.uniform(4.0, 9.0), lambda: self._signal(process, signal.SIGCONT))
        return True

    def _cut(self, name: str) -> bool:
        proxy = self._proxies.get(name)
        if proxy is None:
            return False
        proxy.interrupt()
        self._in(self._random.choice([0.1, 1.0, 4.0, 8.0]), proxy.restore)
        return True

    def _twin(self, name: str) -> bool:
        if name.startswith("coordinator") or len(self._alive[name]) > 1:
            return False
        self._start(name, elsewhere=True)
        return True

    # What a supervisor does

    def _start_all(self) -> None:
        run = self._run
        self._proxies["coordinator.0"] = UnreliableProxy(run.coordinator, Chances(), seed=1)
        run.shared["CLICKLINE_COORDINATOR"] = self._proxies["coordinator.0"].address
        for rank, address in enumerate(run.servers):
            self._proxies[f"pserver.{rank}"] = UnreliableProxy(address, Chances(), seed=1)
        run.shared["CLICKLINE_PSERVERS"] = ",".join(
            self._proxies[f"pserver.{rank}"].address for rank in range(len(run.servers))
        )
        names = [f"pserver.{rank}" for rank in range(run.job.cluster.pservers)]
        names += [f"trainer.{rank}" for rank in range(run.job.cluster.trainers)]
        for name in ("coordinator.0", *names):
            self._start(name)

    def _start(self, name: str, *, elsewhere: bool = False) -> None:
        role, _, rank = name.partition(".")
        place: dict[str, str] = {}
        if elsewhere and role == "pserver":
            bind = f"tcp:127.0.0.1:{free_ports(1)[0]}"
            proxy = UnreliableProxy(bind, Chances(), seed=1)
            self._proxies[f"{name} at {bind}"] = proxy
            place = {"elsewhere": proxy.address, "bind": bind}
        process = self._run.start(role, int(rank), **place)
        self._alive.setdefault(name, []).append(process)

    def _look(self) -> bool:
        """Do what is due, start again who has died; whether the run is over."""
        now = time.monotonic()
        for due in [due for due in self._later if due[0] <= now]:
            self._later.remove(due)
            due[1]()
        for name, processes in self._alive.items():
            for process in [one for one in processes if one.poll() is not None]:
                processes.remove(process)
                self._stopped.discard(process.pid)
                if name == "coordinator.0" and process.returncode == 0:
                    self._alive[name] = []
                    return True
                assert process.returncode in (0, REPLACED, 7, -signal.SIGKILL), self._story(f"{name} failed")
            if not processes and not self._over():
                self._start(name)
        return self._over()

    def _over(self) -> bool:
        return bool(self._run.result())

    def _finish(self) -> None:
        self._until(self._over, "the run ends")
        for _, action in sorted(self._later, key=lambda due: due[0]):
            action()
        self._later = []
        for name, processes in self._alive.items():
            for process in processes:
                self._signal(process, signal.SIGCONT)
                try:
                    code = process.wait(timeout=self._patience)
                except subprocess.TimeoutExpired:
                    raise AssertionError(self._story(f"{name} did not end with the run")) from None
                # Who comes late, or was away, finds nobody any more.
                assert code in (0, 7, REPLACED, -signal.SIGKILL), self._story(f"{name} ended with {code}")

    def _until(self, happened: Callable[[], object], what: str) -> None:
        end = time.monotonic() + self._patience
        while not happened():
            if self._look():
                return
            assert time.monotonic() < end, self._story(f"{what}: not within {self._patience:.0f} s")
            time.sleep(0.05)

    def _in(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def _signal(self, process: subprocess.Popen[str], number: signal.Signals) -> None:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)
            (self._stopped.add if number == signal.SIGSTOP else self._stopped.discard)(process.pid)

    def _story(self, what: str) -> str:
        """All there is to find out why."""
        status = json.dumps({key: value for key, value in self._run.status().items() if key != "members"})
        members = [(m["name"], m["state"], m["pid"], m["silent"]) for m in self._run.status().get("members", [])]
        with suppress(OSError):
            status += "\n" + (self._run.directory / "coordinator.json").read_text()
        logs = "\n".join(f"== {name}\n{self._run.log(name)[-3000:]}" for name in self._alive)
        return f"{what}\n{self.outcome}\n{members}\n{status}\n{logs}"


def write_slow_files(directory: Path, *, nap: float, seed: int) -> str:
    """Small files whose readers take a nap for each batch, so that a run lasts while things happen to it."""
    directory.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    for number in range(FILES):
        lines: list[str] = []
        for row in range(ROWS_PER_FILE):
            if row % BATCH == 0:
                lines.append(f"SLEEP {nap}")
            values = [draw.randint(1, 300) for _ in range(SLOTS)]
            lines.append(",".join(map(str, (int(draw.random() < 0.3 + 0.3 * (values[0] % 2)), *values))))
        (directory / f"part-{number:02d}.log").write_text("\n".join(lines) + "\n")
    return str(directory / "part-*.log")


def main() -> None:
    """`PYTHONPATH=tests python -m support.training.random_faults STRATEGY SEED [FAULTS]`."""
    import sys
    import tempfile

    strategy, seed, *rest = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        faults = int(rest[0]) if rest else 20
        found = RandomFaults(Path(directory), strategy=strategy, seed=int(seed), faults=faults).run()
    print(found)
    sys.exit(0 if found.balanced else 1)


if __name__ == "__main__":
    main()
