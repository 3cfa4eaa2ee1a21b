"""The launcher as a runner has it: what it says, that it is gone, and what it is told."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import BinaryIO

import msgspec

from clickline.files.typed_json import decode_json
from clickline.launch.hosts.host_messages import (
    LINE_LIMIT,
    FinishCommand,
    LauncherMessage,
    StartCommand,
    StopCommand,
    line_of,
)

_LOOK_EVERY = 0.1


class Reporter:
    """Sends messages to the launcher. One that cannot be told any more is gone."""

    def __init__(self, out: BinaryIO, gone: threading.Event) -> None:
        self._out, self._gone = out, gone

    def send(self, message: msgspec.Struct) -> None:
        try:
            self._out.write(line_of(message))
            self._out.flush()
        except (OSError, ValueError):
            self._gone.set()


class LauncherWatch:
    """Finds out that the launcher wants the end, or is gone."""

    def __init__(self, commands: BinaryIO, *, silence: float) -> None:
        self.gone = threading.Event()
        self.started = threading.Event()
        """Whether all hosts are prepared."""
        self._finished = threading.Event()
        self._commands, self._silence = commands, silence
        self._heard = time.monotonic()
        # On a thread, since a read of standard input cannot be waited for together with processes.
        threading.Thread(target=self._listen, name="clickline-launcher", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait so long; whether everything is to be stopped."""
        return self.gone.wait(seconds) or time.monotonic() - self._heard > self._silence

    def await_start(self) -> bool:
        """Wait until all hosts are prepared; False if everything is to be stopped."""
        return self._await(self.started)

    def await_finish(self) -> bool:
        """Wait until the processes of all hosts have ended well; False if everything is to be stopped."""
        return self._await(self._finished)

    def _await(self, word: threading.Event) -> bool:
        while not word.is_set():
            if self.wait(_LOOK_EVERY):
                return False
        return True

    def _listen(self) -> None:
        with suppress(OSError, ValueError, msgspec.MsgspecError):
            while line := self._commands.readline(LINE_LIMIT):
                match decode_json(line, LauncherMessage):
                    case StopCommand():
                        break
                    case StartCommand():
                        self.started.set()
                    case FinishCommand():
                        self._finished.set()
                # Any message is a sign of life.
                self._heard = time.monotonic()
        self.gone.set()
