"""A suite as seen from outside: STATE/suite.json, a lock that its supervisor holds, and a token file for its owner.

Whether a suite is up is decided by the lock alone: the kernel releases it when the supervisor is gone, whichever way it
went. The supervisor holds the lock exclusively; a process that only asks takes it shared, so that two that ask at once
do not take each other for a suite. The lock does not say whose it is: it may be held by an `up` that has just begun,
beside the file of one that was killed. So a signal is sent only to a process that is proven to be the one that the file
names (`NotedProcess`). What a killed supervisor leaves (the file, the token, sockets, and for a moment its processes)
is removed by the next call of `up` or `down`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

from clickline.errors import PeerError
from clickline.files.atomic import replace_json
from clickline.files.locks import open_lock_file, try_lock
from clickline.launch.suite_record import SuiteRecord, SupervisorRecord
from clickline.processes.noted_process import NotedProcess
from clickline.processes.process_identity import birth, boot_id

FILE, TOKEN, LOCK = "suite.json", "suite.token", ".suite.lock"
_LIMIT = 1 << 20
_GONE_WITHIN = 10.0
_ASKERS_GONE_WITHIN = 0.5
"""Seconds: a process that asks whether a suite is up holds the lock for an instant."""
_KNOWN_WITHIN = 2.0
"""Seconds for a suite that has just begun to write suite.json."""


@contextmanager
def claimed(state: Path) -> Iterator[None]:
    """Hold a state directory as its one suite. Raises PeerError if there is one; removes what a killed one has left."""
    state.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock_file(state / LOCK)
    try:
        # Others may just be asking whether a suite is up, which takes them an instant.
        if not _within(_ASKERS_GONE_WITHIN, lambda: try_lock(descriptor)):
            pid = (read_suite(state) or {}).get("pid", "?")
            raise PeerError(
                f"a suite is up in {state} already, process {pid}; `clickline status {state}` shows it, "
                f"`clickline down {state}` stops it, --state names another directory"
            )
        _clear(state)
        try:
            yield
        finally:
            # While the lock is held: afterwards these could be the files of the next suite.
            for name in (FILE, TOKEN):
                (state / name).unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def is_up(state: Path) -> bool:
    """Whether a supervisor lives."""
    try:
        descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        # Held for an instant only, until the close; `claimed` retries for longer than that.
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def read_suite(state: Path) -> SuiteRecord | None:
    """What the supervisor wrote last; None if there is no suite, nor anything left of one."""
    file = state / FILE
    try:
        if file.stat().st_size > _LIMIT:
            raise PeerError(f"{file}: larger than {_LIMIT} bytes; not a suite's state")
        record = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PeerError(f"{file}: cannot be read: {error}; remove it if no suite is up") from None
    if not isinstance(record, dict):
        raise PeerError(f"{file}: not a suite's state; remove it if no suite is up")
    return cast(SuiteRecord, record)


def supervisor_record(*, started: float) -> SupervisorRecord:
    """What tells this process, the supervisor, from any other: now, later, and after a reboot of the machine."""
    pid = os.getpid()
    return {"pid": pid, "birth": birth(pid), "boot": boot_id(), "started": round(started, 3)}


def write_suite(state: Path, record: Mapping[str, object]) -> None:
    """Replace suite.json as a whole. It need not survive a crash of the machine: the suite would not."""
    replace_json(state / FILE, record, synced=False, only_writer=True)


def write_token(state: Path, token: str) -> Path:
    """Write the suite's token to a file that only its owner can read, from the first byte on."""
    file = state / TOKEN
    # Made anew and exclusively: a file that exists would keep its mode, and a link would be followed.
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, token.encode() + b"\n")
    finally:
        os.close(descriptor)
    return file


def stop(state: Path, *, seconds: float) -> bool:
    """Ask the supervisor to stop and wait until it is gone; kill it if that takes too long. Whether it went by itself.

    Raises PeerError if the lock is held by another process than suite.json names, or if it is not ours to stop.
    """
    # The lock is taken before suite.json is written, so there may be a suite whose process is not known yet.
    give_up = time.monotonic() + _KNOWN_WITHIN
    while (supervisor := _supervisor(state)) is None:
        if not is_up(state):
            return True
        if time.monotonic() > give_up:
            raise PeerError(f"{state}: a suite is starting there, but has not written suite.json yet; try again")
        time.sleep(0.02)
    with supervisor:
        try:
            supervisor.signal(signal.SIGTERM)
            # By the descriptor of the process and not by the lock, which another `up` may take as soon as it is free.
            by_itself = _within(seconds, lambda: supervisor.ended)
            if not by_itself:
                supervisor.signal(signal.SIGKILL)
                _within(_GONE_WITHIN, lambda: supervisor.ended)
        except PermissionError:
            raise PeerError(f"{state}: the suite there, process {supervisor.pid}, is not yours to stop") from None
    return by_itself


def _supervisor(state: Path) -> NotedProcess | None:
    """The process that suite.json names, if it is still that one."""
    record = read_suite(state) or {}
    return NotedProcess.find(record.get("pid"), record.get("birth"), boot=record.get("boot"))


def clear(state: Path) -> list[str]:
    """Remove what is left of a suite that is not up any more; gives a description of each thing removed."""
    if read_suite(state) is None:
        return []
    descriptor = open_lock_file(state / LOCK)
    try:
        return _clear(state) if _within(_ASKERS_GONE_WITHIN, lambda: try_lock(descriptor)) else []
    finally:
        os.close(descriptor)


def _clear(state: Path) -> list[str]:
    """As `clear`; the caller holds the lock, so no suite can come up meanwhile."""
    try:
        record = read_suite(state)
    except PeerError:
        record = {}  # it cannot be read, but must go all the same
    if record is None:
        return []
    left = []
    with ExitStack() as stack:
        # Processes die with their supervisor, but not at once: one that is still starting notices only when it asks for
        # its death signal (`child`).
        killed = []
        # All are killed before any is waited for: they end at the same time.
        for component in record.get("components", ()):
            process = NotedProcess.find(component.get("pid"), component.get("birth"), boot=record.get("boot"))
            if process is not None:
                stack.enter_context(process)
                with suppress(PermissionError):
                    process.signal(signal.SIGKILL)  # what it has started dies with it (`child`)
                    killed.append(process)
                    left.append(f"{component.get('name', '?')}, process {process.pid}")
        for process in killed:
            _within(_GONE_WITHIN, partial(getattr, process, "ended"))
    # The file may be of anybody, and names a directory to be removed: only one of ours, by its name and its owner.
    sockets = Path(str(record.get("sockets") or "/nowhere"))
    if sockets.name.startswith("clickline-") and sockets.is_dir() and sockets.stat().st_uid == os.getuid():
        shutil.rmtree(sockets, ignore_errors=True)
        left.append(f"sockets in {sockets}")
    for name in (FILE, TOKEN, f".{FILE}.new"):
        (state / name).unlink(missing_ok=True)
    return left


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether the condition holds within so many seconds."""
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True
