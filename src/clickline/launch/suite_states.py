"""What is known of a suite from outside: STATE/suite.json, a lock that its supervisor holds, a token for its owner.

Whether a suite is up is told by the lock alone: the kernel lets go of it when the supervisor is gone, whichever way it
went, so the number of a process that was given to another cannot mislead. What a killed supervisor leaves (the file,
the token, sockets, and processes for the moment until they notice) is cleared away by whoever comes next.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clickline.durable import alive
from clickline.errors import PeerError

FILE, TOKEN, LOCK = "suite.json", "suite.token", ".suite.lock"
_LIMIT = 1 << 20
_GONE_WITHIN = 10.0
_ASKERS_GONE_WITHIN = 0.5
"""Seconds: who asks whether a suite is up holds the lock for an instant."""


@contextmanager
def claimed(state: Path) -> Iterator[None]:
    """Be the one suite of a state directory. Refuses if there is one; clears away what a killed one has left."""
    state.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _within(_ASKERS_GONE_WITHIN, lambda: _locked(descriptor)):
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
        return not _locked(descriptor)
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


def write_suite(state: Path, facts: dict[str, Any]) -> None:
    """Replace what is told, as a whole. It need not survive a crash of the machine: the suite would not."""
    aside = state / f".{FILE}.new"
    aside.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    aside.replace(state / FILE)


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

    Call it only while `is_up`.
    """
    pid = int((read_suite(state) or {}).get("pid") or 0)
    if not pid:
        raise PeerError(f"{state}: a suite is starting there, but has not said who it is yet; try again")
    born = birth(pid)
    if not _sent(pid, signal.SIGTERM, to_group=False) and is_up(state):
        raise PeerError(f"{state}: the suite there, process {pid}, is not yours to stop")
    by_itself = _within(seconds, lambda: not is_up(state))
    if not by_itself:
        _sent(pid, signal.SIGKILL, to_group=False)
        _within(_GONE_WITHIN, lambda: not is_up(state))
    _within(_GONE_WITHIN, lambda: not _is_same(pid, born))  # it lets go of the state a moment before it ends
    return by_itself


def clear(state: Path) -> list[str]:
    """Remove what a suite that is no longer up has left, if it is not; says what that was, in words."""
    if read_suite(state) is None:
        return []
    descriptor = os.open(state / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        return _clear(state) if _locked(descriptor) else []
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
    for one in found.get("components", ()):
        if _is_same(one.get("pid"), one.get("birth")) and _sent(one["pid"], signal.SIGKILL, to_group=True):
            left.append(f"{one.get('name', '?')}, process {one['pid']}")
    for one in found.get("components", ()):
        _within(_GONE_WITHIN, lambda one=one: not _is_same(one.get("pid"), one.get("birth")))
    sockets = Path(str(found.get("sockets") or "/nowhere"))
    if sockets.name.startswith("clickline-") and sockets.is_dir() and sockets.stat().st_uid == os.getuid():
        shutil.rmtree(sockets, ignore_errors=True)
        left.append(f"sockets in {sockets}")
    for name in (FILE, TOKEN, f".{FILE}.new"):
        (state / name).unlink(missing_ok=True)
    return left


def birth(pid: int | None) -> int:
    """When a process began, as the kernel counts: tells it from a later one with its number. 0 if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    fields = text.rpartition(")")[2].split()
    return 0 if fields[0] == "Z" else int(fields[19])


def _is_same(pid: Any, born: Any) -> bool:
    """Whether a process that was noted is still the one it was."""
    return isinstance(pid, int) and pid > 1 and bool(born) and alive(pid) and birth(pid) == born


def _locked(descriptor: int) -> bool:
    """Whether the lock was free; it is ours then, until the file is closed."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sent(pid: int, number: signal.Signals, *, to_group: bool) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        (os.killpg if to_group else os.kill)(pid, number)
        return True
    return False


def _within(seconds: float, condition: Any) -> bool:
    give_up = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True
