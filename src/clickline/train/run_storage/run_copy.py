"""Copies of runs at URLs for those who only read them: a run's files, and the checkpoints that are asked for.

A copy lies apart from the local copy in which a run on this machine works, so that reading shows what the store has
and never disturbs training. Files that have not changed since are not fetched again; checkpoints that the run has
removed are removed here when it is read the next time, and copies that were not read for a week when another run is.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from clickline.config.job import Job
from clickline.config.run_location import copy_directory, location_of
from clickline.errors import CheckpointError, ClicklineError
from clickline.files.atomic import replace_json
from clickline.files.locks import locked
from clickline.train.checkpoints.checkpoint_directories import MANIFEST, figures_file
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint
from clickline.train.run_files.own_code import CODE
from clickline.train.run_storage.local_copy import LOGS
from clickline.train.run_storage.old_copies import remove_old_copies
from clickline.train.run_storage.remote_run import CHECKPOINTS, START, RemoteCheckpoint, RemoteRun

SIGNS = ("job.json", "status.json", "metrics.jsonl", "result.json")
_FETCHED = ".fetched.json"
_LOCK = ".fetch.lock"
_TRIES = 5
_GROWTH = 64 << 20
"""Bytes that a file of a run which goes on may have grown by since it was listed."""


class RunCopy:
    """A run at a URL, and its copy on this machine."""

    def __init__(self, url: str) -> None:
        """`url`: of the run, of one of its checkpoints, or of its job file."""
        parts = url.rstrip("/").split("/")
        self._named: str | None = None
        if parts[-1] == "job.json":
            parts = parts[:-1]
        elif len(parts) > 2 and parts[-2] == CHECKPOINTS:
            self._named, parts = "/".join(parts[-2:]), parts[:-2]
        elif parts[-1] == START:
            self._named, parts = START, parts[:-1]
        self.url = "/".join(parts)
        self._remote = RemoteRun(self.url)
        self.directory = copy_directory(self.url, kind="run-copies")

    @property
    def names_checkpoint(self) -> bool:
        return self._named is not None

    def exists(self) -> bool:
        """Whether there is a run."""
        names = self._remote.store.names()
        return any(name in names for name in (*SIGNS, CHECKPOINTS))

    def fetch_files(self, *, only: Collection[str] | None = None, logs: bool = False) -> Path:
        """Fetch the run's files other than checkpoints; returns the copy's directory.

        `only` some of them: by name, or all below a folder whose name ends with `/`.
        """
        listing = self._remote.listing()
        if not any(name in SIGNS or name.startswith(f"{CHECKPOINTS}/") for name in listing):
            raise ClicklineError(f"{self.url}: there is no run at this URL; expected that of a run, OUTPUT/NAME")
        with self._locked():
            fetched = self._fetched()
            for name, about in listing.items():
                wanted = logs or not name.startswith(f"{LOGS}/")
                if only is not None:
                    wanted = name in only or any(each.endswith("/") and name.startswith(each) for each in only)
                if not wanted or name.startswith((f"{CHECKPOINTS}/step-", f"{START}/", ".")):
                    continue
                if fetched.get(name) == about.fingerprint and (self.directory / name).is_file():
                    continue
                try:
                    self._remote.fetch_file(name, self.directory / name, limit=about.bytes + _GROWTH)
                    fetched[name] = about.fingerprint
                except CheckpointError as error:
                    if not _was_removed(error):  # by the run, which goes on meanwhile
                        raise
            for name in [name for name in fetched if name not in listing]:
                (self.directory / name).unlink(missing_ok=True)
                del fetched[name]
            replace_json(self.directory / _FETCHED, fetched, synced=False)
        remove_old_copies(self.directory, lock=_LOCK, record=_FETCHED)
        return self.directory

    def checkpoints(self) -> list[Checkpoint]:
        """All complete checkpoints of the run, oldest first. Their paths are those that copies would have."""
        found = self._remote.checkpoints(self._remote.listing())
        return [Checkpoint(self.directory / one.folder, one.manifest) for one in found.values() if one.folder != START]

    def fetch_checkpoint(self) -> Path:
        """Fetch the checkpoint that is meant: the one named; of a run the best one by validation, or the newest."""
        self.fetch_files()
        for attempt in range(1, _TRIES + 1):
            complete = self._remote.checkpoints(self._remote.listing())
            chosen = self._chosen(complete)
            try:
                with self._locked():
                    self._forget(complete)
                    place = self.directory / chosen.folder
                    if not _is_here(place, chosen):
                        self._remote.fetch_checkpoint(chosen, self.directory)
                return place
            except CheckpointError as error:
                # A running job keeps only the last checkpoints: this one may have been removed meanwhile.
                if not _was_removed(error) or attempt == _TRIES:
                    raise
        raise AssertionError("unreachable")

    def upload_figures(self, checkpoint: Path) -> None:
        """Leave figures of a checkpoint at the URL that were measured here."""
        file = figures_file(checkpoint)
        if file.is_file():
            self._remote.store.write(file.relative_to(self.directory).as_posix(), file.read_bytes())

    def _chosen(self, complete: dict[str, RemoteCheckpoint]) -> RemoteCheckpoint:
        if self._named is not None:
            if self._named not in complete:
                raise CheckpointError(f"{self.url}/{self._named}: no complete checkpoint there (no {MANIFEST})")
            return complete[self._named]
        steps = [one for folder, one in complete.items() if folder != START]
        if not steps:
            raise CheckpointError(f"{self.url}: no complete checkpoint there")
        best = steps[-1].manifest["standing"].get("best_step")
        return next((one for one in steps if one.manifest["step"] == best), steps[-1])

    def _forget(self, complete: dict[str, RemoteCheckpoint]) -> None:
        """Remove copies of checkpoints that are not at the URL any more, and what killed processes have left."""
        for place in (self.directory / CHECKPOINTS).glob("*step-*"):
            if f"{CHECKPOINTS}/{place.name}" not in complete:
                shutil.rmtree(place, ignore_errors=True)

    def _locked(self) -> AbstractContextManager[None]:
        self.directory.mkdir(parents=True, exist_ok=True)
        return locked(self.directory / _LOCK, mode=0o600)

    def _fetched(self) -> dict[str, str]:
        with suppress(OSError, ValueError):
            content = json.loads((self.directory / _FETCHED).read_bytes())
            if isinstance(content, dict):
                return {str(name): str(fingerprint) for name, fingerprint in content.items()}
        return {}


def _was_removed(error: CheckpointError) -> bool:
    return isinstance(error.__cause__, FileNotFoundError)


def _is_here(place: Path, checkpoint: RemoteCheckpoint) -> bool:
    """Whether a copy is of this very checkpoint; whoever opens it compares its files with the manifest."""
    with suppress(OSError):
        return (place / MANIFEST).read_bytes() == checkpoint.content
    return False


def code_directory(job: Job, *, of_url: bool = True) -> Path:
    """The directory of a run that may have copies of the user's own files, for `use_own_code`.

    `of_url`: of a run at a URL they are fetched; else a process on this machine has fetched them already.
    """
    location = location_of(job)
    if location.url is None or not of_url or not (copy := RunCopy(location.url)).exists():
        return location.directory
    return copy.fetch_files(only=(f"{CODE}/",))


def runs_below(url: str) -> list[str]:
    """The URLs of all runs directly below one."""
    above = RemoteRun(url)
    return [f"{url.rstrip('/')}/{name}" for name in above.store.names() if not name.startswith(".")]
