"""A command of the user's own that every file is sent through before it is parsed (`data.pipe_command`).

The file, as it is stored, is the standard input of the command; what it prints is the text that is parsed.
It is run by `sh -c`, with the path of the file in CLICKLINE_FILE. A command that fails is an error of the data: rows
that it printed before count for nothing, since the epoch would be short in silence.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from clickline.errors import DataError

_PIECE = 1 << 18
_LAST_WORDS = 2048
VARIABLE = "CLICKLINE_FILE"


def piped(raw: BinaryIO, *, command: str, path: str, offset: int = 0, piece: int = _PIECE) -> Iterator[bytes]:
    """What the command makes of a file, from `offset` of its output on, in pieces of at most `piece` bytes."""
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, VARIABLE: path},
        start_new_session=True,
    ) as process:
        assert process.stdin and process.stdout and process.stderr  # noqa: S101  (pipes were asked for)
        failures: list[Exception] = []
        words: deque[bytes] = deque(maxlen=8)
        # On threads, or a command that prints before it has read everything would wait for us while we wait for it.
        threads = [
            threading.Thread(target=_feed, args=(raw, process.stdin, failures), daemon=True),
            threading.Thread(target=_keep_last, args=(process.stderr, words), daemon=True),
        ]
        for thread in threads:
            thread.start()
        finished = False
        try:
            seen = 0
            while content := process.stdout.read1(min(piece, _PIECE)):  # type: ignore[attr-defined]
                before, seen = seen, seen + len(content)
                if seen > offset:
                    yield content[max(offset - before, 0) :]
            finished = True
        finally:
            # A reader that stops in the middle leaves nothing running, children of the shell included.
            if not finished:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
            for thread in threads:
                thread.join()
        code = process.wait()
    if failures:
        raise failures[0]
    if code:
        said = b"".join(words)[-_LAST_WORDS:].decode(errors="replace").strip() or "it printed no reason"
        raise DataError(f"data.pipe_command failed for '{path}' with exit code {code}: {said}")
    if seen < offset:
        raise DataError(
            f"data.pipe_command made {seen} bytes of '{path}', but reading should resume at {offset}: the file or the "
            "command has changed since; restore it, or start without the checkpoint's position"
        )


def _feed(raw: BinaryIO, stdin: BinaryIO, failures: list[Exception]) -> None:
    try:
        while content := raw.read(_PIECE):
            stdin.write(content)
    except BrokenPipeError:
        pass  # the command has read as much as it wanted, as `head` does
    except Exception as error:  # of the storage: the reader of the output raises it
        failures.append(error)
    finally:
        with suppress(OSError):
            stdin.close()


def _keep_last(stderr: BinaryIO, words: deque[bytes]) -> None:
    while content := stderr.read1(_LAST_WORDS):  # type: ignore[attr-defined]
        words.append(content)
