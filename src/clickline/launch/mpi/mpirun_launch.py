"""Starts the ranks of a job by mpirun, from a machine that need not be one of theirs, and watches them to their end."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec

from clickline.errors import PeerError
from clickline.launch.background.launch_order import (
    EventReporter,
    LaunchEnded,
    LaunchError,
    LaunchFailed,
    LaunchLine,
    LaunchOrder,
    LaunchStarted,
    launch_event,
)
from clickline.launch.hosts.host_messages import line_of
from clickline.launch.hosts.plans.job_placement import grace_of
from clickline.launch.hosts.workspace_archive import packed
from clickline.launch.job_records import JobRecord, kept_record, records_directory
from clickline.processes.process_identity import birth, machine

_RANK = "clickline.launch.mpi.submitted_rank"
_MOST_BYTES = 64 << 20
"""Of a workspace: rank 0 sends it over MPI."""
_SHOWN = 5
_MOMENT = 10.0


def launch_by_mpirun(order: LaunchOrder, reporter: EventReporter) -> dict[str, Any]:
    """Launch the job and wait for its end. Raises PeerError, or LaunchError with what rank 0 says."""
    archive = packed(Path(order.workspace), most_bytes=_MOST_BYTES)
    run, grace = _MpirunProcess(order, reporter), grace_of(order.checked_job)
    try:
        run.send(msgspec.structs.replace(order, archive=archive))
        record = run.await_start()
        if (records_directory() / f"{order.job}.json").exists():
            return run.await_end(None)  # rank 0 runs on this machine, and keeps the record
        own = msgspec.structs.replace(
            record,
            log=str(records_directory() / f"{order.job}.log"),
            pid=os.getpid(),
            machine=machine(),
            born=birth(os.getpid()),
        )
        with kept_record(own), Path(own.log).open("a", encoding="utf-8") as log:
            try:
                return run.await_end(log)
            finally:
                run.close(grace=grace)  # the record says that it has ended when it has
    finally:
        run.close(grace=grace)


class _MpirunProcess:
    """mpirun, and what rank 0 reports through it."""

    def __init__(self, order: LaunchOrder, reporter: EventReporter) -> None:
        self._reporter = reporter
        command = [*order.mpirun, order.python or sys.executable, "-m", _RANK]
        try:
            self._process = subprocess.Popen(
                command,
                cwd=order.workspace,  # where the files are that its options name
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # it is stopped by the end of its input, in order
            )
        except OSError as error:
            raise PeerError(f"nothing was started: {order.mpirun[0]!r} cannot be run: {error}; is MPI here?") from None
        self._said: deque[str] = deque(maxlen=_SHOWN)
        self._words = threading.Thread(target=self._read_words, name="clickline-mpirun", daemon=True)
        self._words.start()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101  (pipes were asked for)
        return pipe

    def send(self, order: LaunchOrder) -> None:
        with suppress(BrokenPipeError):  # it has ended, and says why
            self._pipe(self._process.stdin).write(line_of(order))
            self._pipe(self._process.stdin).flush()

    def await_start(self) -> JobRecord:
        while True:
            match self._event():
                case LaunchStarted() as started:
                    self._reporter.send(started)
                    return started.record
                case LaunchLine(text):
                    self._reporter.say(text)
                case LaunchFailed(message, exit_code):
                    raise LaunchError(message, exit_code=exit_code)
                case LaunchEnded():
                    raise PeerError("the job has ended before it began")

    def await_end(self, log: IO[str] | None) -> dict[str, Any]:
        """Lines of the job's processes go to the log."""
        while True:
            match self._event():
                case LaunchLine(text):
                    self._reporter.say(text)
                    if log is not None:
                        log.write(f"{text}\n")
                        log.flush()
                case LaunchEnded(result):
                    return result
                case LaunchFailed(message, exit_code):
                    raise LaunchError(message, exit_code=exit_code)

    def _event(self) -> LaunchStarted | LaunchLine | LaunchEnded | LaunchFailed:
        while line := self._pipe(self._process.stdout).readline():
            with suppress(msgspec.MsgspecError):  # mpirun may print something itself
                return launch_event(line)
        code = self._process.wait()
        self._words.join(_MOMENT)
        raise PeerError(f"mpirun has ended, exit code {code}: {' / '.join(self._said) or 'it said nothing'}")

    def _read_words(self) -> None:
        for line in self._pipe(self._process.stderr):
            if text := line.decode(errors="replace").strip():
                self._said.append(text)
                self._reporter.say(text)

    def close(self, *, grace: float) -> None:
        """End everything, if it has not ended: rank 0 stops the job when its input ends."""
        with suppress(OSError):
            self._pipe(self._process.stdin).close()
        # Read to the end, since it could not go on when the pipe is full.
        rest = threading.Thread(target=self._pipe(self._process.stdout).read, name="clickline-mpirun-rest", daemon=True)
        rest.start()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
            return
        self._process.terminate()  # it ends the ranks that are left
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
            return
        self._process.kill()
        self._process.wait()
