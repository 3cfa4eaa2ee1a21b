"""Uploads a run to its URL while it trains, in a thread of its own.

Once a second it looks for checkpoints in the local copy that are not at the URL yet. The newest goes first: whatever
the store's speed, the next complete checkpoint there is the newest possible one. Those that the run has removed are
removed there as well, once a newer one is complete. Trouble with the store is retried with growing pauses for as long
as the run lasts; training does not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from clickline.errors import CheckpointError, ReplacedError
from clickline.train.run_storage.local_copy import STATUS, LocalCopy
from clickline.train.run_storage.remote_run import START, RemoteRun
from clickline.train.run_storage.run_lease import RunLease

log = logging.getLogger("clickline.run")
_LOOK_EVERY = 1.0
_LONGEST_PAUSE = 60.0
_SMALL = 8 << 20
"""Bytes of a file that is read as a whole: it may grow meanwhile."""


class RunUploader:
    """The upload of one run."""

    def __init__(
        self,
        *,
        local: LocalCopy,
        remote: RemoteRun,
        lease: RunLease,
        keep: int,
        say: Callable[[str], None],
        on_replaced: Callable[[str], None],
    ) -> None:
        """`keep` checkpoints are kept, as in the run's directory. `on_replaced` is told if the run is another's."""
        self._local, self._remote, self._lease = local, remote, lease
        self._keep, self._say, self._on_replaced = keep, say, on_replaced
        self._only_there = set(local.uploaded) - set(local.checkpoints())
        """Checkpoints that were not fetched."""
        self._sent: dict[str, tuple[int, int]] = {}
        self._status_guard = threading.Lock()
        self._wake = threading.Event()
        self._final = False
        self._give_up = 0.0
        self._failing = False
        self.failure: Exception | None = None
        """Why not everything is at the URL."""
        self._thread = threading.Thread(target=self._upload_on, name="clickline-uploader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, *, patience: float, limit: float | None = None) -> None:
        """Upload what is left. Raises if the store stays away for `patience` seconds, or it takes more than `limit`."""
        self._give_up = time.monotonic() + patience
        self._final = True
        self._wake.set()
        self._thread.join(limit)
        if self._thread.is_alive():
            raise CheckpointError(self.incomplete(f"it takes longer than {limit:g} s"))
        if isinstance(self.failure, ReplacedError):
            raise self.failure
        if self.failure is not None:
            raise CheckpointError(self.incomplete(str(self.failure))) from self.failure

    def incomplete(self, why: str) -> str:
        """The message about a run that is not at its URL as a whole."""
        return (
            f"{self._remote.url}: not everything could be uploaded: {why}; nothing is lost: {self._local.directory} "
            "has the whole run, and --resume on this machine goes on from there and uploads it"
        )

    def upload_status(self) -> None:
        """Upload the run's status alone."""
        self._send(STATUS)

    def _upload_on(self) -> None:
        pause, final = _LOOK_EVERY, False
        while True:
            if self._final and not final:  # the pauses grow anew, within what patience there is
                pause, final = _LOOK_EVERY, True
            try:
                self._upload_changes(final=final)
            except ReplacedError as error:
                self.failure = error
                self._on_replaced(str(error))
                return
            except (CheckpointError, OSError) as error:
                self.failure = error
                self._say_failing(error, pause)
                if final and time.monotonic() + pause > self._give_up:
                    return
                self._wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                continue
            except Exception as error:
                log.exception("the upload to %s has failed", self._remote.url)
                self.failure = error
                return
            if self._failing:
                self._failing = False
                self._say(f"{self._remote.url} can be reached again: everything so far is uploaded")
            self.failure, pause = None, _LOOK_EVERY
            if final:
                return
            self._wait(pause)

    def _wait(self, seconds: float) -> None:
        # Woken once, by `finish`: pauses after that are real pauses.
        self._wake.wait(seconds)
        self._wake.clear()

    def _say_failing(self, error: Exception, pause: float) -> None:
        if not self._failing:
            self._failing = True
            self._say(
                f"{error}; training goes on, checkpoints are kept in {self._local.directory} and uploaded when the "
                f"store is back; trying again in {pause:.0f} s, later with longer pauses"
            )

    def _upload_changes(self, *, final: bool) -> None:
        while (due := self._next()) is not None:
            self._upload_checkpoint(*due)
        self._remove_old()
        if final:
            self._upload_files(logs=True)

    def _next(self) -> tuple[str, str] | None:
        """The checkpoint to upload next. What the run was given comes first: the others need it to be resumed."""
        due = [
            (folder, identity)
            for folder, identity in self._local.checkpoints().items()
            if self._local.uploaded.get(folder) != identity
        ]
        if not due:
            return None
        return due[0] if due[0][0] == START else due[-1]

    def _upload_checkpoint(self, folder: str, identity: str) -> None:
        pinned = self._local.pin(folder, identity)
        try:
            if pinned is None:
                return
            began = time.monotonic()
            # Before the checkpoint: a run that resumes from it needs the metrics of all steps until then.
            self._upload_files(logs=False)
            self._local.uploaded.pop(folder, None)
            size = self._remote.upload_checkpoint(pinned, folder, check=self._lease.check)
        finally:
            self._local.unpin()
        self._local.uploaded[folder] = identity
        self._local.remember()
        if folder != START:
            self._say(
                f"checkpoint of step {int(folder.rpartition('-')[2]):,} is safe at {self._remote.url}: "
                f"{size / 1e6:.1f} MB in {time.monotonic() - began:.1f} s"
            )

    def _remove_old(self) -> None:
        """Remove checkpoints that the run does not keep any more."""
        here = [folder for folder in self._local.checkpoints() if folder != START]
        if not here or here[-1] not in self._local.uploaded:
            return
        # Those that were not fetched count as the older ones among `keep`; later steps than the run's stay, as in a
        # directory whose run went on from an earlier checkpoint.
        older = sorted(folder for folder in self._only_there if folder < here[-1] and folder != START)
        spare = max(0, self._keep - len(here))
        kept = {*here, *(self._only_there - set(older)), *(older[-spare:] if spare else ()), START}
        for folder in sorted(self._local.uploaded.keys() - kept):
            self._remote.remove_checkpoint(folder, check=self._lease.check)
            self._only_there.discard(folder)
            del self._local.uploaded[folder]
            self._local.remember()

    def _upload_files(self, *, logs: bool) -> None:
        for name, _ in self._local.files(logs=logs):
            self._send(name)

    def _send(self, name: str) -> None:
        path = self._local.directory / name
        with self._status_guard:  # else an older status could overwrite the last one
            try:
                about = path.stat()
                if self._sent.get(name) == (about.st_mtime_ns, about.st_size):
                    return
                if about.st_size <= _SMALL:
                    self._remote.store.write(name, path.read_bytes())
                else:
                    self._remote.store.put(path, name)
            except FileNotFoundError:  # removed meanwhile
                return
            self._sent[name] = (about.st_mtime_ns, about.st_size)
