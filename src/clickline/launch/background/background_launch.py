"""Starts a launcher in the background, which outlives this process, and hears what becomes of its job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import IO, Any

import msgspec

from clickline.errors import PeerError
from clickline.launch.background.launch_order import (
    LaunchEnded,
    LaunchError,
    LaunchEvent,
    LaunchFailed,
    LaunchLine,
    LaunchOrder,
    LaunchStarted,
    launch_event,
)
from clickline.launch.hosts.host_messages import line_of
from clickline.launch.job_records import JobRecord, records_directory
from clickline.processes.logs import tail

_PROGRAM = "clickline.launch.background.launch_process"
_SHOWN = 5


class BackgroundLaunch:
    """One job on its way."""

    def __init__(self, order: LaunchOrder, *, hidden: Collection[str] = ()) -> None:
        """`hidden` are variables of our environment that hold credentials: it is started without them."""
        self._job = order.job
        records_directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log = records_directory() / f"{order.job}.log"
        environment = {name: value for name, value in os.environ.items() if name not in hidden}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # it goes on when this terminal is closed
            )
        with suppress(BrokenPipeError):  # it has ended, and its log says why
            self._pipe(self._process.stdin).write(line_of(order))
            self._pipe(self._process.stdin).close()

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101  (pipes were asked for)
        return pipe

    def await_start(self, say: Callable[[str], None]) -> JobRecord:
        """Wait until the job has begun; its record. Raises LaunchError with the reason if it has not."""
        while True:
            try:
                event = self._event()
            except KeyboardInterrupt:
                self._process.send_signal(signal.SIGINT)
                self._process.wait()
                raise
            match event:
                case LaunchStarted(record):
                    return record
                case LaunchLine(text):
                    say(text)
                case LaunchFailed(message, exit_code):
                    self._close()
                    if not self._log.stat().st_size:
                        self._log.unlink()
                    raise LaunchError(message, exit_code=exit_code)
                case LaunchEnded():
                    raise PeerError(f"{self._job} has ended before it began; {self._log} may say why")

    def await_end(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Wait until the job has ended; its result. Raises LaunchError. Ctrl+C stops the job."""
        while True:
            try:
                event = self._event()
            except KeyboardInterrupt:
                self._process.send_signal(signal.SIGINT)
                continue
            match event:
                case LaunchLine(text):
                    say(text)
                case LaunchEnded(result):
                    self._close()
                    return result
                case LaunchFailed(message, exit_code):
                    self._close()
                    raise LaunchError(message, exit_code=exit_code)

    def _close(self) -> None:
        """After its last word."""
        self._process.wait()
        self._pipe(self._process.stdout).close()

    def _event(self) -> LaunchEvent:
        line = self._pipe(self._process.stdout).readline()
        try:
            return launch_event(line)
        except msgspec.MsgspecError:
            code = self._process.wait()
            said = " / ".join(tail(self._log, _SHOWN)) or "it said nothing"
            raise PeerError(f"the launcher of {self._job} has ended, exit code {code}: {said}") from None
