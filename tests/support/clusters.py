"""Small clusters of real processes: started, watched through what they leave on disk, and hit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from support.eventually import eventually
from support.processes import ENVIRONMENT, write_job

PATIENCE = 240.0
"""Seconds after which something that has not happened never will."""
SLOTS = 26


def settings_for(data: dict[str, str], directory: Path, name: str, /, **changes: Any) -> dict[str, Any]:
    """Many pieces, small steps, frequent cuts, quick signs of life."""
    settings: dict[str, Any] = {
        "name": name,
        "seed": 5,
        "threads": 1,
        "strategy": "async",
        "output": str(directory / "runs"),
        "data": {"train": [data["train"]], "test": [data["test"]], "shuffle_rows": 1000, "threads": 1},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16], "dropout": 0.0},
        "train": {"batch_size": 50, "log_every": 10, "epochs": 1},
        "checkpoint": {"every_steps": 40, "keep": 1000},
        "cluster": {
            "pservers": 2,
            "trainers": 2,
            "threads": 1,
            "piece_bytes": 20_000,
            "heartbeat": 0.2,
            "start_timeout": 60,
        },
    }
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values} if isinstance(values, dict) else values
    return settings


class Watched(ABC):
    """A run as its directory shows it. `process` is the one that must live on for anything to happen."""

    process: subprocess.Popen[str]

    def __init__(self, settings: dict[str, Any], *, rows: int = 0, meant_to_end: bool = False) -> None:
        """`rows` that it should train, each at least once; `meant_to_end`: before it is done, with an error."""
        self.rows, self.meant_to_end = rows, meant_to_end
        self.faults = 0
        """Injected so far."""
        self.job = Job.model_validate(settings)
        self.directory = run_directory_of(self.job)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self.file = write_job(self.directory.parent / f"{self.job.name}.yaml", settings)

    def status(self) -> dict[str, Any]:
        try:
            return json.loads((self.directory / "status.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def reaches(self, condition: Callable[[], Any], what: str = "") -> Any:
        try:
            return eventually(condition, process=self.process, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_lines()}") from None

    def last_lines(self) -> str:
        """Of every log, for who reads of a failure."""
        logs = sorted((self.directory / "logs").glob("*.log"))
        return "\n".join(f"-- {log.name}\n{log.read_text()[-2000:]}" for log in logs)

    def steps(self, least: int) -> None:
        """Wait until so many steps were taken."""
        self.reaches(lambda: self.status().get("step", 0) >= least, f"step {least}")

    def cuts(self, least: int) -> list[Checkpoint]:
        """Wait until so many checkpoints are there."""
        return self.reaches(lambda: (c := self.checkpoints()) and len(c) >= least and c, f"{least} checkpoints")

    def checkpoints(self) -> list[Checkpoint]:
        return checkpoint_files.find(self.directory / "checkpoints")

    def pid(self, name: str) -> int:
        """Of a member, by role and rank."""

        def found() -> int | None:
            members = self.status().get("members", [])
            return next((m["pid"] for m in members if m["name"] == name and m["state"] != "dead"), None)

        return self.reaches(found, f"{name} has joined")

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        pid = self.pid(name)
        self.hit(pid, number)
        return pid

    def hit(self, pid: int, number: int = signal.SIGKILL) -> None:
        os.kill(pid, number)
        self.faults += 1

    def log(self, name: str) -> str:
        path = self.directory / "logs" / f"{name}.log"
        return path.read_text() if path.exists() else ""

    @abstractmethod
    def close(self) -> None:
        """Leave no process behind."""

    def summary(self) -> dict[str, int]:
        """What is counted over all tests."""
        result = self.result()
        distinct = result.get("rows", 0) - result.get("repeated_rows", 0)
        return {
            "runs": 1,
            "faults": self.faults,
            "completed": int(bool(result)),
            "ended": int(self.meant_to_end and not result),
            "rows": result.get("rows", 0),
            "lost": max(0, self.rows - distinct) if result else 0,
            "repeated": result.get("repeated_rows", 0),
            "pushes": result.get("lost_pushes", 0),
            "retries": result.get("retries", 0),
        }

    def result(self) -> dict[str, Any]:
        file = self.directory / "result.json"
        return json.loads(file.read_text()) if file.exists() else {}


class Run(Watched):
    """`clickline train JOB`, which starts all others."""

    def __init__(
        self, settings: dict[str, Any], *arguments: str, program: list[str] | None = None, **facts: Any
    ) -> None:
        super().__init__(settings, **facts)
        self.process = subprocess.Popen(
            [sys.executable, *(program or ["-m", "clickline"]), "train", str(self.file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **ENVIRONMENT},
        )

    def environment_of(self, name: str) -> dict[str, str]:
        """As a process of the run has it: what another one needs to join."""
        raw = Path(f"/proc/{self.pid(name)}/environ").read_bytes().decode()
        pairs = dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)
        return {key: value for key, value in pairs.items() if key.startswith("CLICKLINE_") and "LAUNCHER" not in key}

    def ends(self, code: int = 0) -> dict[str, Any]:
        """Wait for the end; returns result.json of a run that ended well."""
        try:
            self.out, self.err = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGTERM)
            self.out, self.err = self.process.communicate(timeout=20)
            raise AssertionError(f"still running; {self.status()}\n{self.out}\n{self.err}") from None
        assert self.process.returncode == code, f"{self.process.returncode}\n{self.out}\n{self.err}"
        return self.result()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        if self.process.stdout and not self.process.stdout.closed:
            self.process.communicate(timeout=30)


class Parts(Watched):
    """Coordinator, servers and trainers, each started by itself and told by its environment where the others are."""

    def __init__(self, settings: dict[str, Any], *, seen_as: Callable[[str], str] = str, **facts: Any) -> None:
        """`seen_as` gives the address under which others are to know a server, such as that of a proxy."""
        super().__init__(settings, **facts)
        cluster = self.job.cluster
        ports = free_ports(1 + cluster.pservers)
        self.coordinator, *self.servers = [f"tcp:127.0.0.1:{port}" for port in ports]
        self.shared = {
            "CLICKLINE_PSERVERS": ",".join(map(seen_as, self.servers)),
            "CLICKLINE_TRAINERS": str(cluster.trainers),
            "CLICKLINE_COORDINATOR": self.coordinator,
            "CLICKLINE_TOKEN": "a secret of the test",
            "CLICKLINE_DIRECTORY": str(self.directory),
        }
        self.started: dict[str, subprocess.Popen[str]] = {}

    def start(
        self,
        role: str,
        rank: int = 0,
        *arguments: str,
        program: list[str] | None = None,
        name: str = "",
        elsewhere: str = "",
        bind: str = "",
        node: int | None = None,
        cwd: Path | None = None,
    ) -> subprocess.Popen[str]:
        """`elsewhere`: a server that others are to find there, not where the job's list has it. `name`: of its log.

        `node` that its launcher would number it by, `cwd` that relative paths of the job are in.
        """
        at = bind or elsewhere
        bind = {"coordinator": self.coordinator, "pserver": self.servers[rank] if role == "pserver" else ""}.get(
            role, ""
        )
        shared = dict(self.shared)
        if elsewhere:
            listed = shared["CLICKLINE_PSERVERS"].split(",")
            shared["CLICKLINE_PSERVERS"] = ",".join([*listed[:rank], elsewhere, *listed[rank + 1 :]])
            bind = at
        name = name or f"{role}.{rank}"
        env = {
            **os.environ,
            **ENVIRONMENT,
            **shared,
            "CLICKLINE_ROLE": role,
            "CLICKLINE_RANK": str(rank),
            "CLICKLINE_BIND": bind,
            **({} if node is None else {"CLICKLINE_NODE": str(node)}),
        }
        logs = self.directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, *(program or ["-m", "clickline"]), role, str(self.file), *arguments],
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                env=env,
                cwd=cwd,
            )
        self.started[name] = process
        if role == "coordinator":
            self.process = process
        return process

    def start_all(self) -> None:
        self.start("coordinator")
        for rank in range(self.job.cluster.pservers):
            self.start("pserver", rank)
        for rank in range(self.job.cluster.trainers):
            self.start("trainer", rank)

    def kill_hard(self, name: str) -> None:
        self.hit(self.started[name].pid)
        self.started.pop(name).wait()

    def ends_replaced(self, name: str) -> None:
        """Wait until one has ended because another has its place, and said so."""
        process = self.started.pop(name)
        try:
            code = process.wait(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()
        assert code == 9, f"{name} ended with {code}:\n{self.log(name)}"

    def ends(self) -> dict[str, Any]:
        """Wait until all have ended well."""
        for name, process in self.started.items():
            try:
                code = process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                raise AssertionError(f"{name} still runs; {self.status()}\n{self.log(name)}") from None
            assert code == 0, f"{name} ended with {code}:\n{self.log(name)}"
        return self.result()

    def close(self) -> None:
        for process in self.started.values():
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


def shows_of(checkpoint: Checkpoint) -> dict[str, float]:
    """How often all keys of each table were shown, summed: rows times slots if every row was trained once."""
    from clickline.train.checkpoints.checkpoint_inspection import _opened

    tables = _opened(checkpoint).sparse.tables
    return {name: float(table.counts(table.keys())[:, 0].astype("float64").sum()) for name, table in tables.items()}


def leases(run: Watched) -> dict[str, int]:
    """Who holds a piece at the moment, by name."""
    try:
        book = json.loads((run.directory / "coordinator.json").read_text())["book"] or {}
    except (FileNotFoundError, ValueError):
        return {}
    return {held[4].split()[0]: held[1] for held in book.get("held", [])}


def pushes(run: Watched) -> list[int]:
    """That each server has applied."""
    servers = [member for member in run.status().get("members", []) if member["role"] == "pserver"]
    return [server.get("counters", {}).get("pushes", 0) for server in servers]
