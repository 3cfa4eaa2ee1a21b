"""The local copy of a run at a URL: which of its checkpoints and files there are, and what of it was uploaded.

`.uploaded.json` says which checkpoints are at the URL, and who wrote there last. If the URL names the same writer, no
other machine has gone on with the run, and the local copy may be ahead of it; otherwise the copy is of the past.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from clickline.errors import CheckpointError
from clickline.files.atomic import replace_json
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_manifest import MANIFEST_LIMIT
from clickline.train.run_files.run_lock import COORDINATOR
from clickline.train.run_storage.remote_run import CHECKPOINTS, START, identity_of

LEDGER = ".uploaded.json"
LOGS = "logs"
STATUS = "status.json"
RESULT = "result.json"
_PINNED = ".uploading"
_OF_THIS_MACHINE = frozenset((COORDINATOR,))
"""Files that mean something to processes which run now, and nothing to those of another machine."""


class LocalCopy:
    """The local copy of one run."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.uploaded: dict[str, str] = {}
        """Identities of the checkpoints that are complete at the URL, by folder."""
        self.writers: list[str] = []
        """Who has written to the URL last, as far as this machine knows: more than one if a start was interrupted."""
        self.complete = False
        """Whether the whole run is at the URL, and nothing was written here since."""
        with suppress(OSError, ValueError, TypeError, AttributeError):
            ledger = json.loads((directory / LEDGER).read_bytes())
            self.writers = [str(writer) for writer in ledger["writers"]]
            self.uploaded = {str(folder): str(identity) for folder, identity in ledger["uploaded"].items()}
            self.complete = ledger.get("complete") is True

    def remember(self) -> None:
        """Write the ledger."""
        try:
            ledger = {"writers": self.writers, "uploaded": self.uploaded, "complete": self.complete}
            replace_json(self.directory / LEDGER, ledger, only_writer=True)
        except OSError as error:
            raise CheckpointError(f"{self.directory / LEDGER}: cannot be written: {error}") from error

    def checkpoints(self) -> dict[str, str]:
        """Identities of the complete checkpoints here by folder, those of earlier steps first; `start` is one."""
        found = {}
        for place in (self.directory / START, *sorted((self.directory / CHECKPOINTS).glob("step-*"))):
            with suppress(OSError):  # none, or removed meanwhile
                if (place / MANIFEST).stat().st_size <= MANIFEST_LIMIT:
                    folder = place.relative_to(self.directory).as_posix()
                    found[folder] = identity_of((place / MANIFEST).read_bytes())
        return found

    def pin(self, folder: str, identity: str) -> Path | None:
        """Keep the files of a checkpoint while they are uploaded, by links: the run may remove it any time.

        None if it is gone, or another one of the same step has taken its place.
        """
        place, pinned = self.directory / folder, self.directory / _PINNED
        shutil.rmtree(pinned, ignore_errors=True)
        try:
            pinned.mkdir()
            for file in place.iterdir():
                _link_or_copy(file, pinned / file.name)
            content = (place / MANIFEST).read_bytes()
        except FileNotFoundError:
            return None
        # A checkpoint is replaced by renames of whole directories: if the manifest is the same in the end, it was not.
        return pinned if identity_of(content) == identity else None

    def unpin(self) -> None:
        shutil.rmtree(self.directory / _PINNED, ignore_errors=True)

    def files(self, *, logs: bool) -> Iterator[tuple[str, Path]]:
        """Files beside the checkpoints that belong to the run, with their names; its result last."""
        last = []
        for parent, folders, names in os.walk(self.directory):
            at = Path(parent).relative_to(self.directory)
            folders[:] = sorted(
                name for name in folders if not name.startswith((".", "step-")) and (logs or (at / name) != Path(LOGS))
            )
            if at == Path():
                folders[:] = [name for name in folders if name != START]
            for name in sorted(names):
                path = Path(parent) / name
                if name.startswith(".") or name in _OF_THIS_MACHINE or path.is_symlink():
                    continue
                if (at / name) == Path(RESULT):
                    last.append((RESULT, path))
                else:
                    yield (at / name).as_posix(), path
        yield from last

    def clear(self) -> Path | None:
        """Make room for another machine's work. Checkpoints that were never uploaded are moved aside: where to."""
        lost = [folder for folder, identity in self.checkpoints().items() if self.uploaded.get(folder) != identity]
        aside = None
        if any(folder != START for folder in lost):
            aside = self.directory.with_name(f".{self.directory.name}.set-aside-{os.getpid()}-{os.urandom(2).hex()}")
            aside.mkdir()
            (self.directory / CHECKPOINTS).rename(aside / CHECKPOINTS)
        for path in list(self.directory.iterdir()):
            # The lock is held, and the log is of this process.
            if path.name in (LOGS, ".run.lock"):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        self.uploaded, self.writers = {}, []
        return aside


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(source, target)
