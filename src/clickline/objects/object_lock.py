"""A lock in a store that has no locks: an object that says who holds it.

Whoever creates the object holds the lock. Creation is exclusive where the store can do that (S3, memory), so exactly
one of any number of processes wins. A lock whose holder has ended is taken over by creating a second object, named
after the content of the first: again only one can. The holder is therefore whoever wrote the last object of that
chain. A release deletes the first object before the others, so that whoever looked at the chain before and extends it
late finds its beginning gone and gives up.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from clickline.processes.process_identity import birth, machine, proven_dead

STALE_AFTER = 6 * 3600.0
"""Seconds after which a lock is taken over whose holder cannot be seen from this machine."""


class LockObjects(Protocol):
    """The operations of a store that a lock needs."""

    def find(self, name: str) -> bytes | None:
        """A small object, or None if there is none of this name."""

    def create(self, name: str, content: bytes) -> bool:
        """Write an object that must not exist yet; whether it is ours now."""

    def delete(self, name: str) -> None:
        """Delete an object. That it is gone already is fine."""


class ObjectLock:
    """One attempt at a lock, and its release."""

    def __init__(self, objects: LockObjects, name: str, *, has_ended: Callable[[bytes], bool] | None = None) -> None:
        """`has_ended` judges by a record whether its process cannot hold the lock any more; by age if not given."""
        self._objects, self._name = objects, name
        self._has_ended = has_ended or ended_or_stale
        self._held: list[str] = []
        self.record = b""
        """Of this process, once it has the lock."""

    def acquire(self) -> bool:
        """Take the lock if it is free or its holder has ended."""
        links = list(self._links())
        if links and not self._has_ended(links[-1][1]):
            return False
        end = _next(self._name, links[-1][1]) if links else self._name
        # Processes that saw the same last record compute the same name, so the exclusive create lets only one win.
        record = holder_record()
        if not self._objects.create(end, record):
            return False
        if links and self._objects.find(self._name) != links[0][1]:
            # The lock was released after its chain was read: the new object continues a chain that is gone.
            self._objects.delete(end)
            return False
        self._held, self.record = [name for name, _ in links] + [end], record
        return True

    def is_held(self) -> bool:
        """Whether no other process has taken the lock over since."""
        return any(content == self.record for _, content in list(self._links())[-1:])

    def release(self) -> None:
        # The first object goes first (see above). Links that a crash leaves behind are unreachable: their names derive
        # from a record with a nonce, which never comes again.
        for name in self._held:
            self._objects.delete(name)
        self._held = []

    def holder(self) -> str:
        """The holder, for messages."""
        record = parsed(next(iter(list(self._links())[-1:]), ("", b""))[1])
        return f"process {record.get('pid', '?')} on {record.get('host', '?')}"

    def _links(self) -> Iterator[tuple[str, bytes]]:
        """The objects of the lock, each after the one that it takes over."""
        name = self._name
        while (content := self._objects.find(name)) is not None:
            yield name, content
            name = _next(self._name, content)


def holder_record() -> bytes:
    """A record of this process, different each time: the holder is recognised by these bytes."""
    record = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "machine": machine(),
        "born": birth(os.getpid()),
        "time": time.time(),
        "nonce": secrets.token_hex(8),
    }
    return json.dumps(record).encode()


def _next(name: str, content: bytes) -> str:
    return f"{name}.{hashlib.sha256(content).hexdigest()[:16]}"


def ended_or_stale(content: bytes) -> bool:
    """Whether the process that wrote a lock cannot hold it any more."""
    record = parsed(content)
    on, pid, born, when = (record.get(key) for key in ("machine", "pid", "born", "time"))
    # On this machine the process itself decides and never the age: a publisher that takes long is not stale. Of another
    # machine only the age is known.
    if isinstance(on, str) and isinstance(pid, int) and isinstance(born, int) and on and on == machine():
        return proven_dead(on=on, pid=pid, born=born)
    return time.time() - (float(when) if isinstance(when, int | float) else 0.0) > STALE_AFTER


def parsed(content: bytes) -> dict[str, Any]:
    """The record in a lock object; empty if it is none."""
    try:
        found = json.loads(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
