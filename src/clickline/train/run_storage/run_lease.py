"""The right to write to a run at a URL, which one process has at a time: a lock object, renewed while its holder lives.

The lock is that of stores of versions (objects/object_lock.py): of any number of processes one creates it. Beside it
its holder rewrites an object every few seconds. Whoever finds the lock of a process on another machine watches that
object, by its own clock: if it does not change for `LEASE` seconds, the holder counts as dead and the lock is taken
over. A process on this machine is asked for directly. A holder that was only slow finds out in `check`, which is called
before a checkpoint becomes visible or is removed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable

from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.objects.object_lock import ObjectLock, parsed
from clickline.objects.object_store import ObjectStore
from clickline.processes.process_identity import machine, proven_dead

log = logging.getLogger("clickline.run")
LOCK = ".run.lock"
_BEAT = f"{LOCK}.alive."
LEASE = 30.0
"""Seconds without a renewal after which a holder counts as dead."""
RENEW_EVERY = 5.0
_LONG_AGO = 600.0
"""Seconds: a renewal older than this by our own clock need not be watched; clocks do not differ by as much."""
_DYING = 1.0
"""Seconds that a killed process of this machine may need to be gone."""


class RunLease:
    """One process's hold on a run at a URL."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = ObjectLock(store, LOCK, has_ended=self._has_ended)
        self._watched: dict[bytes, tuple[bytes | None, float]] = {}
        """Holders that were met: their first renewal that was seen, and when."""
        self._refusal = ""
        self._count = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(self, say: Callable[[str], None]) -> None:
        """Take the lock; waits until it is known whether its holder lives. Raises PeerError if it does."""
        give_up, told = time.monotonic() + 2 * LEASE + 10, False
        dying = time.monotonic() + _DYING
        while not self._lock.acquire():
            if (self._refusal and time.monotonic() > dying) or time.monotonic() > give_up:
                raise PeerError(
                    f"{self._store.url} is in use by {self._lock.holder()}; wait until it is done, stop it, or train "
                    "elsewhere with --set name=…"
                )
            if not told and not self._refusal:
                told = True
                say(f"{self._store.url}: waiting up to {LEASE:.0f} s to see whether {self._lock.holder()} still lives")
            time.sleep(0.2 if self._refusal else 1.0)
        self.renew()
        for name in self._store.names():  # of holders that were killed
            if name.startswith(_BEAT) and name != _beat_name(self._lock.record):
                self._store.delete(name)

    def renew(self) -> None:
        """Show that this process lives."""
        self._count += 1
        beat = {"count": self._count, "time": time.time()}
        self._store.write(_beat_name(self._lock.record), json.dumps(beat).encode())

    def keep(self, also: Callable[[], None]) -> None:
        """Renew every few seconds in a thread, until `release`. `also` is done each time; it may raise our errors."""

        def renew_on() -> None:
            while not self._stopped.wait(RENEW_EVERY):
                for work in (self.renew, also):
                    try:
                        work()
                    except Exception as error:  # the store is away, and then nobody can take it over either
                        log.debug("%s: %s", self._store.url, error)

        self._thread = threading.Thread(target=renew_on, name="clickline-run-lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise ReplacedError if another process has taken the run over."""
        if not self._lock.is_held():
            raise ReplacedError(
                f"{self._store.url} was taken over by {self._lock.holder()}; this process was replaced and has changed "
                "nothing there since"
            )

    def release(self) -> None:
        """Let the next one in. If the store is away, the lease runs out."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
        try:
            # The lock of whoever has taken it over begins with our object, which must stay then.
            if self._lock.is_held():
                self._lock.release()
            self._store.delete(_beat_name(self._lock.record))
        except CheckpointError as error:
            log.warning("%s: its lock could not be removed (%s); it runs out by itself", self._store.url, error)

    def _has_ended(self, content: bytes) -> bool:
        record = parsed(content)
        on, pid, born = (record.get(key) for key in ("machine", "pid", "born"))
        if isinstance(on, str) and isinstance(pid, int) and isinstance(born, int) and on and on == machine():
            if proven_dead(on=on, pid=pid, born=born):
                return True
            self._refusal = "lives on this machine"
            return False
        now, beat = time.monotonic(), self._store.find(_beat_name(content))
        first, since = self._watched.setdefault(content, (beat, now))
        if beat != first:
            self._refusal = "is renewed"
            return False
        last = parsed(beat or content).get("time")
        return now - since > LEASE or time.time() - (last if isinstance(last, int | float) else 0.0) > _LONG_AGO


def _beat_name(record: bytes) -> str:
    return f"{_BEAT}{hashlib.sha256(record).hexdigest()[:16]}"
