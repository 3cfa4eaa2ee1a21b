"""Runs the processes of one host of a job, for as long as whoever started it is there.

    python -m clickline.launch.hosts.host_runner

reads its plan from standard input, starts what the plan says, and reports on standard output. When standard input ends,
or says so, everything is stopped: whoever held the other end is gone. A process that dies is started again here, as
often as the job allows; the launcher only hears of it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from clickline.errors import ClicklineError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.checkpoint_command import CheckpointCommand
from clickline.launch.hosts.host_messages import (
    LINE_LIMIT,
    HostPlan,
    HostPrepared,
    LogLines,
    ProcessEnded,
    ProcessNews,
    RunnerDone,
    RunnerFailed,
    RunnerStarted,
)
from clickline.launch.hosts.launcher_watch import LauncherLost, LauncherWatch, Reporter
from clickline.launch.hosts.node_work import NodeWork
from clickline.processes.child import stopped_by_signals
from clickline.processes.process import Spec
from clickline.processes.process_events import ProcessEvent
from clickline.processes.process_identity import birth
from clickline.processes.supervisor import Supervisor

_LOOK_EVERY = 0.1
_MOST_LOG_BYTES = 256 << 10
"""Of one process that are sent at a time; a process that writes more is read in several turns."""
_ENDED = ("done", "failed", "stopped", "replaced")
PID_FILE = "runner.pid"


class LogFollower:
    """Sends what is appended to the processes' logs."""

    def __init__(self, logs: dict[str, Path]) -> None:
        self._logs = logs
        self._read = {name: log.stat().st_size if log.exists() else 0 for name, log in logs.items()}

    def news(self, *, last: bool = False) -> Iterator[LogLines]:
        """Whole lines since the last time; `last`: also one that has not ended."""
        for name, log in self._logs.items():
            with suppress(FileNotFoundError), log.open("rb") as file:
                file.seek(self._read[name])
                content = file.read(_MOST_LOG_BYTES)
                # A line without an end may still be written at. One longer than what is read at once is sent in parts.
                end = len(content) if last or len(content) == _MOST_LOG_BYTES else content.rfind(b"\n") + 1
                if end:
                    self._read[name] += end
                    yield LogLines(name, content[:end].decode(errors="replace"))


def specs_of(plan: HostPlan) -> list[Spec]:
    """The processes as the supervisor takes them."""
    directory = Path(plan.directory)
    job_file = str(directory / plan.job_file)
    return [
        Spec(
            role=process.role,
            rank=process.rank,
            argv=[sys.executable, "-m", "clickline", process.verb or process.role, job_file, *process.arguments],
            env={**plan.environment, **process.environment},
            log=directory / "log" / f"{process.role}.{process.rank}.log",
            directory=Path(plan.workspace) if plan.workspace else None,
            spare=process.spare,
        )
        for process in plan.processes
    ]


def run_plan(plan: HostPlan, *, commands: BinaryIO, reports: BinaryIO) -> int:
    """Start the processes and report until all have ended, or are to be stopped; gives the exit code.

    Raises LauncherLost, when everything is stopped, if that was the reason.
    """
    directory = Path(plan.directory)
    (directory / "log").mkdir(parents=True, exist_ok=True)
    if not plan.in_place:
        os.chdir(directory)
    link = directory / "output"
    if plan.output and not link.is_symlink():
        link.symlink_to(plan.output)
    await_predecessor(directory, patience=plan.silence + plan.grace)
    (directory / PID_FILE).write_text(f"{os.getpid()}\n", encoding="ascii")
    launcher = LauncherWatch(commands, silence=plan.silence)
    try:
        return _PlanRun(plan, launcher, Reporter(reports, launcher)).run()
    finally:
        (directory / PID_FILE).unlink(missing_ok=True)


class _PlanRun:
    """One plan while it is carried out."""

    def __init__(self, plan: HostPlan, launcher: LauncherWatch, reporter: Reporter) -> None:
        self._plan, self._launcher, self._reporter = plan, launcher, reporter
        self._specs = specs_of(plan)
        self._work = NodeWork(plan, stopped=self._follow_and_wait)
        logs = {spec.name: spec.log for spec in self._specs if spec.log is not None}
        self._follower = LogFollower({**logs, **self._work.logs})
        self._at_checkpoints = CheckpointCommand(plan, report=lambda name, text: reporter.send(ProcessNews(name, text)))
        self._ended: set[str] = set()

    def run(self) -> int:
        """Gives the exit code. Raises LauncherLost."""
        code = 0
        try:
            ended = self._prepared() and self._supervised()
            # What is done at last is done once the processes of all hosts have ended.
            if ended and self._plan.awaits_start and self._launcher.await_finish():
                self._work.finish()
        except ClicklineError as error:
            code = 1
            self._follow_logs(last=True)
            self._reporter.send(RunnerFailed(str(error)))
        finally:
            self._at_checkpoints.stop()
        self._follow_logs(last=True)
        # Looked at before the last message: a launcher that has it may close the connection at once.
        if self._launcher.is_lost:
            raise LauncherLost(f"{self._plan.job}: the launcher was not heard any more; all processes were stopped")
        self._reporter.send(RunnerDone())
        return code

    def _prepared(self) -> bool:
        """Whether processes are to be started: not without the word that all hosts are prepared, if that is awaited."""
        if not self._plan.awaits_start:
            return True
        if not self._work.prepare():
            return False
        self._reporter.send(HostPrepared())
        return self._launcher.await_start()

    def _supervised(self) -> bool:
        """Run the processes; whether they have ended by themselves."""
        plan, finished = self._plan, False
        with Supervisor(self._specs, restarts=plan.restarts, on_event=self._tell, grace=plan.grace) as supervisor:
            self._reporter.send(RunnerStarted({state["name"]: state["pid"] or 0 for state in supervisor.states()}))
            while not self._launcher.wait(_LOOK_EVERY):
                supervisor.poll()
                self._at_checkpoints.poll()
                self._follow_logs()
                self._report_ends(supervisor)
                if finished := supervisor.finished():
                    break
            # Before the servers, of which it asks a last checkpoint.
            supervisor.stop("coordinator")
            self._report_ends(supervisor)
        self._at_checkpoints.finish(until=self._launcher.wait)
        return finished

    def _tell(self, event: ProcessEvent) -> None:
        self._reporter.send(ProcessNews(event.process, str(event)))

    def _report_ends(self, supervisor: Supervisor) -> None:
        for state in supervisor.states():
            if state["state"] in _ENDED and state["name"] not in self._ended:
                self._ended.add(state["name"])
                self._reporter.send(ProcessEnded(state["name"], int(state["state"] != "done"), state["reason"]))

    def _follow_logs(self, *, last: bool = False) -> None:
        for lines in self._follower.news(last=last):
            self._reporter.send(lines)

    def _follow_and_wait(self) -> bool:
        self._follow_logs()
        return self._launcher.wait(_LOOK_EVERY)


def await_predecessor(directory: Path, *, patience: float) -> None:
    """Wait until the runner of a connection that was lost has ended: its processes have the ports of ours."""
    until = time.monotonic() + patience
    with suppress(OSError, ValueError):
        pid = int((directory / PID_FILE).read_text(encoding="ascii"))
        while pid != os.getpid() and birth(pid) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)


def main() -> int:
    # Not sys.stdin: Python aborts at its end if a thread still reads from that one.
    commands, reports = os.fdopen(sys.stdin.fileno(), "rb", closefd=False), sys.stdout.buffer
    try:
        plan = decode_json(commands.readline(LINE_LIMIT), HostPlan)
    except msgspec.MsgspecError as error:
        sys.stderr.write(f"the plan cannot be read: {error}\n")
        return 2
    try:
        with stopped_by_signals():
            return run_plan(plan, commands=commands, reports=reports)
    except LauncherLost as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
