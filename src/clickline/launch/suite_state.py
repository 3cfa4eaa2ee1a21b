"""What is known of a suite from outside: STATE/suite.json, a lock that its supervisor holds, a token for its owner.

Whether a suite is up is told by the lock alone: the kernel lets go of it when the supervisor is gone, whichever way it
went. The supervisor holds it alone; who asks shares it, so that two who ask do not take each other for a suite. The
lock does not tell whose it is: it may be of an `up` that has just begun, beside the file of one that was killed. So a
signal is sent only to a process that is proven to be the one that the file names (`NotedProcess`). What a killed
supervisor leaves (the file, the token, sockets, and processes for the moment until they notice) is cleared away by
whoever comes next.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from clickline.errors import PeerError
from clickline.files.atomic import replace_json
from clickline.files.locks import open_lock_file, try_lock
from clickline.processes.noted_process import NotedProcess
from clickline.processes.process_identity import birth, boot_id

FILE, TOKEN, LOCK = "suite.json", "suite.token", ".suite.lock"
_LIMIT = 1 << 20
_GONE_WITHIN = 10.0
_ASKERS_GONE_WITHIN = 0.5
"""Seconds: who asks whether a suite is up holds the lock for an instant."""
_KNOWN_WITHIN = 2.0
"""Seconds for a suite that has just begun to say who it is."""


@contextmanager
def claimed(state: Path) -> Iterator[None]:
    """Be the one suite of a state directory. Refuses if there is one; clears away what a killed one has left."""
    state.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock_file(state / LOCK)
    try:
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
        return not try_lock(descriptor, shared=True)
    finally:
        os.close(descriptor)


def read_suite(state: Path) -> dict[str, Any] | None:
    """What the supervisor told last; None if there is no suite, nor anything left of one."""
    file = state / FILE
    try:
        if file.stat().st_size > _LIMIT:
            raise PeerError(f"{file}: larger than {_LIMIT} bytes; that is no suite's state")
        found = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PeerError(f"{file}: cannot be read: {error}; remove it if no suite is up") from None
    if not isinstance(found, dict):
        raise PeerError(f"{file}: holds no suite's state; remove it if no suite is up")
    return found


def supervisor_facts(*, started: float) -> dict[str, Any]:
    """What tells this process, the supervisor, from any other: now, later, and after the machine was started anew."""
    pid = os.getpid()
    return {"pid": pid, "birth": birth(pid), "boot": boot_id(), "started": round(started, 3)}


def write_suite(state: Path, facts: dict[str, Any]) -> None:
    """Replace what is told, as a whole. It need not survive a crash of the machine: the suite would not."""
    replace_json(state / FILE, facts, synced=False, only_writer=True)


def write_token(state: Path, token: str) -> Path:
    """Keep the suite's token where only its owner can read it, from the first byte on."""
    file = state / TOKEN
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, token.encode() + b"\n")
    finally:
        os.close(descriptor)
    return file


def stop(state: Path, *, seconds: float) -> bool:
    """Ask the supervisor to stop and wait until it is gone; kill it if that takes too long. Whether it went by itself.

    Raises PeerError if somebody holds the lock who is not the process that suite.json names, or it is not ours to stop.
    """
    give_up = time.monotonic() + _KNOWN_WITHIN
    while (supervisor := _supervisor(state)) is None:
        if not is_up(state):
            return True
        if time.monotonic() > give_up:
            raise PeerError(f"{state}: a suite is starting there, but has not said who it is yet; try again")
        time.sleep(0.02)
    with supervisor:
        try:
            supervisor.signal(signal.SIGTERM)
            by_itself = _within(seconds, lambda: supervisor.ended)
            if not by_itself:
                supervisor.signal(signal.SIGKILL)
                _within(_GONE_WITHIN, lambda: supervisor.ended)
        except PermissionError:
            raise PeerError(f"{state}: the suite there, process {supervisor.pid}, is not yours to stop") from None
    return by_itself


def _supervisor(state: Path) -> NotedProcess | None:
    """The one that suite.json names, if it is still that one."""
    noted = read_suite(state) or {}
    return NotedProcess.find(noted.get("pid"), noted.get("birth"), boot=noted.get("boot"))


def clear(state: Path) -> list[str]:
    """Remove what a suite that is no longer up has left, if it is not; says what that was, in words."""
    if read_suite(state) is None:
        return []
    descriptor = open_lock_file(state / LOCK)
    try:
        return _clear(state) if _within(_ASKERS_GONE_WITHIN, lambda: try_lock(descriptor)) else []
    finally:
        os.close(descriptor)


def _clear(state: Path) -> list[str]:
    try:
        found = read_suite(state)
    except PeerError:
        found = {}
    if found is None:
        return []
    left = []
    with ExitStack() as stack:
        killed = []
        for one in found.get("components", ()):
            component = NotedProcess.find(one.get("pid"), one.get("birth"), boot=found.get("boot"))
            if component is not None:
                stack.enter_context(component)
                with suppress(PermissionError):
                    component.signal(signal.SIGKILL)  # what it has started dies with it (`child`)
                    killed.append(component)
                    left.append(f"{one.get('name', '?')}, process {component.pid}")
        for component in killed:
            _within(_GONE_WITHIN, lambda component=component: component.ended)
    sockets = Path(str(found.get("sockets") or "/nowhere"))
    if sockets.name.startswith("clickline-") and sockets.is_dir() and sockets.stat().st_uid == os.getuid():
        shutil.rmtree(sockets, ignore_errors=True)
        left.append(f"sockets in {sockets}")
    for name in (FILE, TOKEN, f".{FILE}.new"):
        (state / name).unlink(missing_ok=True)
    return left


def _within(seconds: float, condition: Any) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True
