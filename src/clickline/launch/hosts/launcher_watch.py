"""The launcher as a runner has it: what it says, that it is gone, and what it is told."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import BinaryIO

import msgspec

from clickline.errors import PeerError
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


class LauncherLost(PeerError):
    """Raised when the launcher was not heard for too long, or its connection has ended without a StopCommand."""


class LauncherWatch:
    """Finds out that the launcher wants the end, or is gone."""

    def __init__(self, commands: BinaryIO, *, silence: float) -> None:
        self.gone = threading.Event()
        """Whether everything is to be stopped."""
        self._lost = threading.Event()
        self.started = threading.Event()
        """Whether all hosts are prepared."""
        self._finished = threading.Event()
        self._commands, self._silence = commands, silence
        self._heard = time.monotonic()
        # On a thread, since a read of standard input cannot be waited for together with processes.
        threading.Thread(target=self._listen, name="clickline-launcher", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait so long; whether everything is to be stopped."""
        gone = self.gone.wait(seconds)
        if not gone and time.monotonic() - self._heard > self._silence:
            self.give_up()
        return self.gone.is_set()

    @property
    def is_lost(self) -> bool:
        return self._lost.is_set()

    def give_up(self) -> None:
        """Count the launcher as lost from now on, even if a cut connection is mended and it is heard again.

        It must then learn that the connection is over. Told that the runner is done, as if all had ended well, it would
        never start these processes again.
        """
        self._lost.set()
        self.gone.set()

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
                        self.gone.set()
                        return
                    case StartCommand():
                        self.started.set()
                    case FinishCommand():
                        self._finished.set()
                # Any message is a sign of life.
                self._heard = time.monotonic()
        self.give_up()


class Reporter:
    """Sends messages to the launcher, as long as it is not lost."""

    def __init__(self, out: BinaryIO, launcher: LauncherWatch) -> None:
        self._out, self._launcher = out, launcher

    def send(self, message: msgspec.Struct) -> None:
        if self._launcher.is_lost:
            return
        try:
            self._out.write(line_of(message))
            self._out.flush()
        except (OSError, ValueError):
            self._launcher.give_up()
