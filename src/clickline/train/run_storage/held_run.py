"""A run that this process may write to, from the first look at where it is to the last byte that is kept there.

Of a run in a directory, that is the lock of the directory. Of a run at a URL it is the local copy's lock, a lease at
the URL, the checkpoints that the run needs fetched from there, and an upload that goes on until the end.
docs/decisions/0021 has the reasons.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clickline.config import Job
from clickline.config.run_location import location_of
from clickline.errors import CheckpointError, ClicklineError
from clickline.objects.object_lock import parsed
from clickline.objects.object_store import ListedObject
from clickline.progress import Watcher
from clickline.train.checkpoints import checkpoint_manifest
from clickline.train.checkpoints.checkpoint_manifest import CheckpointManifest
from clickline.train.interrupts import TrainingInterrupted
from clickline.train.monitoring.run_health import ENDED
from clickline.train.run_files.run_lock import COORDINATOR, EPOCH, RunLock
from clickline.train.run_files.run_lock import FILE as LOCK_FILE
from clickline.train.run_storage.local_copy import LEDGER, LOGS, STATUS, LocalCopy
from clickline.train.run_storage.old_copies import remove_old_copies
from clickline.train.run_storage.remote_run import CHECKPOINTS, START, RemoteCheckpoint, RemoteRun
from clickline.train.run_storage.run_lease import RunLease
from clickline.train.run_storage.run_uploader import RunUploader

log = logging.getLogger("clickline.run")
PATIENCE = "CLICKLINE_UPLOAD_PATIENCE"
"""Environment variable: seconds for which a store may stay away at the end of a run."""
_PATIENCE = 300.0
_WRITER = ".writer.json"
_STATUS_LIMIT = 16 << 20


@contextmanager
def held_run(
    job: Job,
    *,
    role: str,
    watcher: Watcher,
    resume: bool | Path = False,
    fresh: bool = False,
    takes_up: bool = False,
    directory: Path | None = None,
) -> Iterator[RunLock]:
    """Hold the run of a job. `takes_up`: a run that was not ended may be taken up without --resume.

    `directory`: in which this process works, if that is not the one of the job.
    """
    location = location_of(job)
    with RunLock(directory or location.directory, role=role) as lock:
        lock.url = location.url
        if location.url is None or lock.lent:
            yield lock
            return
        remote = RemoteRun(location.url)
        remote.probe()
        lease = RunLease(remote.store)
        lease.acquire(watcher.say)
        try:
            local = LocalCopy(lock.directory)
            remove_old_copies(
                lock.directory, lock=LOCK_FILE, record=LEDGER, is_spare=lambda copy: LocalCopy(copy).complete
            )
            _Beginning(local, remote, lock, watcher).begin(resume=resume, fresh=fresh, takes_up=takes_up)
            uploader = RunUploader(
                local=local,
                remote=remote,
                lease=lease,
                keep=job.checkpoint.keep,
                say=watcher.say,
                on_replaced=lock.revoke,
            )
            lease.keep(uploader.upload_status)
            uploader.start()
            with _uploaded_at_the_end(uploader, job, watcher):
                yield lock
            local.complete = True
            local.remember()
        finally:
            lease.release()


@contextmanager
def _uploaded_at_the_end(uploader: RunUploader, job: Job, watcher: Watcher) -> Iterator[None]:
    patience = _patience()
    try:
        yield
    except BaseException:
        # The run's own error is what ends it; what was saved until then is uploaded all the same.
        limit = job.checkpoint.interrupt_timeout or patience
        try:
            uploader.finish(patience=min(patience, limit), limit=limit)
        except (ClicklineError, KeyboardInterrupt) as error:
            watcher.say(str(error) or uploader.incomplete("interrupted"))
        raise
    try:
        uploader.finish(patience=patience)
    except KeyboardInterrupt as error:
        raise TrainingInterrupted(uploader.incomplete("interrupted")) from error


class _Beginning:
    """Brings a local copy and a URL together before a run begins. Only for the process that holds both."""

    def __init__(self, local: LocalCopy, remote: RemoteRun, lock: RunLock, watcher: Watcher) -> None:
        self._local, self._remote, self._lock, self._watcher = local, remote, lock, watcher
        self._listing: Mapping[str, ListedObject] = remote.listing()
        self._complete = remote.checkpoints(self._listing)
        self._writer = parsed(remote.store.find(_WRITER) or b"")
        self._current = self._writer.get("writer") in local.writers
        """Whether no other machine has written to the URL since this one did: then the local copy may be ahead."""

    def begin(self, *, resume: bool | Path, fresh: bool, takes_up: bool) -> None:
        lost = takes_up and not resume and not fresh and self._is_unfinished_elsewhere()
        if not lost:
            self._refuse(resume=resume, fresh=fresh, takes_up=takes_up)
        if not self._current:
            aside = self._local.clear()
            if aside is not None:
                self._watcher.say(f"{self._remote.url} has gone on elsewhere: checkpoints only of here are in {aside}")
        self._local.unpin()
        self._local.uploaded = {folder: found.identity for folder, found in self._complete.items()}
        # A kill until here leaves a copy that the next start replaces.
        if resume or lost:
            self._fetch(resume or True)
        if lost:
            self._leave_record_of_lost_coordinator()
        self._become_writer()
        for folder in self._remote.leftovers(self._listing, self._complete):
            self._remote.remove_checkpoint(folder)
        if fresh and not resume:
            for folder in reversed(self._complete):
                self._remote.remove_checkpoint(folder)
            self._local.uploaded = {}
            self._local.remember()

    def _is_unfinished_elsewhere(self) -> bool:
        """Whether a coordinator on another machine has died in the middle of the run, whose members may live on."""
        phase = parsed(self._remote.store.find(STATUS, limit=_STATUS_LIMIT) or b"").get("phase")
        return bool(not self._current and self._steps() and phase not in (None, *ENDED))

    def _leave_record_of_lost_coordinator(self) -> None:
        """Let the coordinator begin as it does when its record cannot be read: everybody goes back to a checkpoint."""
        self._watcher.say(f"{self._remote.url} was not finished by a coordinator on another machine: taking it up")
        try:
            (self._local.directory / COORDINATOR).write_text("on another machine\n", encoding="utf-8")
        except OSError as error:
            raise CheckpointError(f"{self._local.directory / COORDINATOR}: cannot be written: {error}") from error

    def _steps(self) -> list[RemoteCheckpoint]:
        return [found for folder, found in self._complete.items() if folder != START]

    def _refuse(self, *, resume: bool | Path, fresh: bool, takes_up: bool) -> None:
        """Raise as a directory would be refused, before anything is changed."""
        steps, url = self._steps(), self._remote.url
        here = [folder for folder in self._local.checkpoints() if folder != START] if self._current else []
        if resume is True and not steps and not here:
            raise CheckpointError(f"{url} has no checkpoint to resume from; leave --resume out to start")
        if steps and not resume and not fresh and not (takes_up and self._current):
            raise CheckpointError(
                f"{url} already holds {len(steps)} checkpoint(s), the newest of step {steps[-1].manifest['step']}; "
                "--resume continues from it, --fresh throws it away, --set name=… trains elsewhere"
            )

    def _become_writer(self) -> None:
        """Leave a name at the URL and here. A kill in between leaves both names here."""
        epoch = self._writer.get(EPOCH)
        self._lock.advance(epoch if isinstance(epoch, int) else 0)
        name = secrets.token_hex(8)
        self._local.complete = False
        self._local.writers.append(name)
        self._local.remember()
        record = {"writer": name, EPOCH: self._lock.epoch, "host": socket.gethostname(), "time": time.time()}
        self._remote.store.write(_WRITER, json.dumps(record).encode())
        self._local.writers = [name]
        self._local.remember()

    def _fetch(self, resume: bool | Path) -> None:
        """Fetch what the run needs to go on: a checkpoint, the best one, what it was given, its metrics and code."""
        if not self._current:
            for name, about in self._listing.items():
                if name.startswith((f"{CHECKPOINTS}/step-", f"{START}/", ".", COORDINATOR)):
                    continue
                # This process may have begun a log of its own already.
                if not (name.startswith(f"{LOGS}/") and (self._local.directory / name).exists()):
                    self._remote.fetch_file(name, self._local.directory / name, limit=about.bytes)
        manifest = checkpoint_manifest.read(resume).manifest if isinstance(resume, Path) else self._fetch_newest()
        best = manifest["standing"].get("best_step")
        for folder in (START, *([] if best is None else [f"{CHECKPOINTS}/step-{best:010d}"])):
            self._fetch_checkpoint(folder)

    def _fetch_newest(self) -> CheckpointManifest:
        here = self._local.checkpoints()
        # What is here and not there was not uploaded yet.
        newest = max({folder for folder in (*here, *self._complete) if folder != START})
        self._fetch_checkpoint(newest)
        return checkpoint_manifest.read(self._local.directory / newest).manifest

    def _fetch_checkpoint(self, folder: str) -> None:
        found, here = self._complete.get(folder), self._local.checkpoints()
        if found is None or folder in here:
            return
        size = sum(file["bytes"] for file in found.manifest["files"].values())
        self._watcher.say(f"fetching {self._remote.store.shown(folder)}, {size / 1e6:.1f} MB")
        self._remote.fetch_checkpoint(found, self._local.directory)


def _patience() -> float:
    try:
        return max(0.0, float(os.environ.get(PATIENCE) or _PATIENCE))
    except ValueError:
        raise CheckpointError(f"{PATIENCE}={os.environ[PATIENCE]!r}: expected a number of seconds") from None
