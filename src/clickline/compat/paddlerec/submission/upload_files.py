"""Files that a submission takes along: globs of `files`, copied flat, so that no two may have one name."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clickline.errors import JobError, JobProblem

LARGE = 100_000_000
"""Bytes of all files together above which a warning is given."""
_KEY = "submit.files"


@dataclass(slots=True)
class UploadFiles:
    """What the globs have found."""

    files: dict[str, Path] = field(default_factory=dict)
    """By the name in the folder."""
    problems: list[JobProblem] = field(default_factory=list)
    notices: list[JobProblem] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files.values())

    def add(self, path: Path) -> None:
        """One file; another one of its name is a problem."""
        before = self.files.setdefault(path.name, path)
        if not before.samefile(path):
            message = f"{before} and {path} have one name, and files are copied into one directory: rename one of them"
            self.problems.append(JobProblem(_KEY, message))


def split_globs(text: str) -> list[str]:
    """Globs as `files` has them, between spaces or commas. Raises JobError."""
    try:
        return [part for word in shlex.split(text) for part in word.split(",") if part]
    except ValueError as error:
        raise JobError(f"{_KEY}: {text!r} cannot be read: {error}") from None


def find_files(
    globs: Sequence[str], directories: Iterable[Path], *, reserved: Sequence[str], skipped: Sequence[str] = ()
) -> UploadFiles:
    """The files of all globs, seen from the first of the directories in which each finds any.

    `reserved` are names that no file may have: they are generated. Those of `skipped` are left out in silence.
    """
    found, places = UploadFiles(), list(directories)
    for pattern in globs:
        paths = next((paths for place in places if (paths := _matches(pattern, place))), [])
        for path in paths:
            if path.name in skipped:
                continue
            if path.is_dir():
                found.notices.append(JobProblem(_KEY, f"{path} is a directory and stays here: name its files"))
            elif path.name in reserved:
                message = f"{path} has the name of a file that is generated: rename it, or leave it out"
                found.problems.append(JobProblem(_KEY, message))
            else:
                found.add(path)
        if not paths and glob.has_magic(pattern):
            found.notices.append(JobProblem(_KEY, f"{pattern!r} matches no file in {places[0]}"))
        elif not paths:
            where = " or ".join(str(place) for place in dict.fromkeys(places))
            found.problems.append(JobProblem(_KEY, f"there is no file {pattern!r} in {where}: expected all of `files`"))
    if found.bytes > LARGE:
        message = f"{found.bytes / 1e6:,.0f} MB go to each node: large data is better fetched there (train_data_path)"
        found.notices.append(JobProblem(_KEY, message))
    return found


def _matches(pattern: str, place: Path) -> list[Path]:
    if not glob.has_magic(pattern):
        path = place / Path(pattern).expanduser()
        return [path] if path.exists() else []
    expanded = str(Path(pattern).expanduser())
    return sorted(place / name for name in glob.glob(expanded, root_dir=place))  # noqa: PTH207  (Path.glob takes no absolute one)
