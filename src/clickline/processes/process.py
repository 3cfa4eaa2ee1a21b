"""One supervised process: in a session of its own, its output in its log, and nothing of it left when it has ended.

A process's end is noticed before it is reaped: while it is a zombie its number cannot be given to another, so what it
left behind in its group can be killed without hitting a stranger.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict

from clickline.errors import PeerError
from clickline.processes.child import LAUNCHER
from clickline.processes.heartbeats.heartbeat import VARIABLE
from clickline.processes.heartbeats.heartbeat_monitor import HeartbeatMonitor
from clickline.processes.logs import line, tail
from clickline.processes.restart_policy import RecentDeaths, RestartPolicy


@dataclass(frozen=True, slots=True)
class Spec:
    """The command of a process, its name, and how it may be restarted."""

    role: str
    rank: int
    argv: Sequence[str]
    env: Mapping[str, str]
    """Added to our own environment."""
    log: Path | None
    """stdout and stderr are appended to it; None leaves them with ours."""
    directory: Path | None = None
    """To run it in; None: ours."""
    restart: bool = True
    """Whether it may be started again when it dies."""
    spare: bool = False
    """Whether the rest can do without it, as long as there is another of its role."""
    pass_fds: tuple[int, ...] = ()
    """Descriptors of ours that it inherits, by the same numbers."""
    policy: RestartPolicy | None = None
    """How often it may be started again; as the supervisor says, if it is not given."""
    stall_after: float = 0.0
    """Seconds without a heartbeat after which it is killed and started again; 0: it has no heartbeat."""
    replicas: str = ""
    """Processes with the same name here stand in for each other: of them only one at a time is killed for standing
    still."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"


class ProcessState(TypedDict):
    """What one process does."""

    role: str
    rank: int
    name: str
    state: str
    """As of `Process.state`."""
    pid: int | None
    restarts: int
    deaths: int
    """Those that still count, as the restart policy says."""
    since: float
    """Seconds since 1970 when it entered its state."""
    reason: str
    """Why it ended last, in words."""


class Process:
    """A spec and, at any time, at most one process that runs it."""

    def __init__(self, spec: Spec, *, policy: RestartPolicy | None = None) -> None:
        self.spec = spec
        self.state = "new"
        """new, running, waiting (to be started again), done, failed, stopped, or replaced (by one of the same name)."""
        self.starts = 0
        self.deaths = RecentDeaths(spec.policy or policy or RestartPolicy())
        self.starts_again = 0.0
        """When, by the monotonic clock; while waiting."""
        self.reason = ""
        """Of its last end, in words."""
        self.since = time.time()
        self.heartbeat: HeartbeatMonitor | None = None
        """Of the process that runs, if it is to have one."""
        self.stood_still = 0.0
        """Seconds that it stood still for, if it was killed for that."""
        self._popen: subprocess.Popen[bytes] | None = None
        self._log_from = 0

    @property
    def pid(self) -> int | None:
        return None if self._popen is None else self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen is not None

    @property
    def well(self) -> bool:
        """Whether it runs, has got as far as to serve, and is not standing still."""
        beats = self.heartbeat is None or (self.heartbeat.begun and not self.heartbeat.stalled)
        return self.state == "running" and self.alive and not self.stood_still and beats

    def description(self) -> ProcessState:
        return {
            "role": self.spec.role,
            "rank": self.spec.rank,
            "name": self.spec.name,
            "state": self.state,
            "pid": self.pid,
            "restarts": max(0, self.starts - 1),
            "deaths": self.deaths.look(running=self.alive),
            "since": self.since,
            "reason": self.reason,
        }

    def enter(self, state: str) -> None:
        """Note the new state and when it began."""
        self.state, self.since = state, time.time()

    def start(self) -> None:
        """Run it. Raises PeerError if the program is not there."""
        spec = self.spec
        self.heartbeat = HeartbeatMonitor(stall_after=spec.stall_after) if spec.stall_after else None
        self.stood_still = 0.0
        if spec.log is None:
            self._run(None)
        else:
            spec.log.parent.mkdir(parents=True, exist_ok=True)
            with spec.log.open("ab") as log:
                log.write(line("launcher", f"starts {spec.name}").encode())
                log.flush()
                self._log_from = log.tell()
                self._run(log)
        self.starts += 1
        self.deaths.started()
        self.enter("running")

    def _run(self, log: IO[bytes] | None) -> None:
        spec, heartbeat = self.spec, self.heartbeat
        # Unbuffered, so that the last lines before a crash are in the log.
        env = {**os.environ, "PYTHONUNBUFFERED": "1", **spec.env, LAUNCHER: str(os.getpid())}
        # Always set: a number in our own environment would mean another descriptor in the child.
        env[VARIABLE] = "" if heartbeat is None else str(heartbeat.descriptor)
        try:
            self._popen = subprocess.Popen(  # noqa: S603  (our own argv, no shell)
                list(spec.argv),
                env=env,
                cwd=spec.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if log is None else subprocess.STDOUT,
                start_new_session=True,  # Ctrl+C is for us, who then stop all in order
                pass_fds=spec.pass_fds if heartbeat is None else (*spec.pass_fds, heartbeat.descriptor),
            )
        except OSError as error:
            self.enter("failed")
            raise PeerError(f"{spec.name} cannot be started: {spec.argv[0]}: {error.strerror}") from None
        finally:
            if heartbeat is not None:
                heartbeat.started()

    def ended(self) -> int | None:
        """Its return code, once, when it has ended; its group is then gone too, and no zombie is left."""
        if self._popen is None:
            return None
        try:
            # WNOWAIT leaves it a zombie: as long as it is one, its number, which is also that of its group, is taken.
            if os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return None
        except ChildProcessError:
            pass  # something else in this process has reaped it; Popen copes with that
        self.kill()  # its children, which would else outlive it
        code = self._popen.wait()
        self._popen = None
        return code

    def terminate(self) -> None:
        """Ask the process to stop by SIGTERM; it stops its own children itself."""
        if self._popen is not None:
            with suppress(ProcessLookupError):
                os.kill(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Kill it and whatever it started."""
        if self._popen is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, signal.SIGKILL)

    def kill_for_standing_still(self) -> None:
        """Kill the process, and remember why: its exit code will only say SIGKILL."""
        self.stood_still = self.heartbeat.silent if self.heartbeat is not None else 0.0
        self.kill()

    def last_log_lines(self, lines: int) -> list[str]:
        """The end of its log, no further back than its last start."""
        return [] if self.spec.log is None else tail(self.spec.log, lines, since=self._log_from)
