"""From a file to a job, or to a list of everything that is wrong with it.

All problems are reported at once, each with its key and line, so that a job is mended in one round. Checking is
strict: "3" is not 3, and true is not 1. A job made in Python is checked by the same types, but less strictly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from clickline.config.base import Section
from clickline.config.job import Job
from clickline.config.lines import Tree, UnreadableError, parse
from clickline.config.origins import key_text, leaves
from clickline.config.overriding import override
from clickline.config.phrasing import problem_of, show
from clickline.config.suggesting import closest
from clickline.errors import JobError, JobProblem

MAX_BYTES = 1 << 20
Settings = TypeVar("Settings", bound=Section)


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job and where each of its values came from."""

    job: Job
    origins: dict[str, str]
    """For the path of every leaf key: `file line N`, `override` or `default`."""
    path: Path | None
    """The file it was read from; None if it was made of defaults and overrides alone."""


def read_job(path: str | os.PathLike[str] | None, *, overrides: Sequence[str] = ()) -> LoadedJob:
    """Read and check a job. `overrides` are KEY=VALUE texts, as given to --set. Raises JobError with all problems."""
    file = None if path is None else Path(path)
    source = "job" if file is None else str(file)
    try:
        tree = Tree(value=None) if file is None else parse(_text(file))
    except UnreadableError as error:
        raise _failed(source, [error.problem]) from None
    if tree.value is None:
        tree.value = {}
    if not isinstance(tree.value, dict):
        raise _failed(source, [JobProblem("", f"a job is a mapping of keys to values, not {show(tree.value)}", 1)])
    for argument in overrides:
        override(tree, argument)
    job = _checked(tree, Job, source)
    return LoadedJob(job, {key_text(leaf): tree.origins.describe(leaf) for leaf, _ in leaves(job)}, file)


def read_settings(path: str | os.PathLike[str], root: type[Settings], *, what: str) -> Settings:
    """A file of settings that is no job, read and checked in the same way. `what` it is, for messages."""
    try:
        tree = parse(_text(Path(path)))
    except UnreadableError as error:
        raise _failed(str(path), [error.problem]) from None
    if not isinstance(tree.value, dict):
        raise _failed(str(path), [JobProblem("", f"{what} is a mapping of keys to values, not {show(tree.value)}", 1)])
    return _checked(tree, root, str(path))


def _checked(tree: Tree, root: type[Settings], source: str) -> Settings:
    try:
        found = root.model_validate(tree.value, strict=True)
    except ValidationError as error:
        known = {problem.key for problem in tree.problems}
        seen = [problem_of(dict(finding), tree.origins, root) for finding in error.errors(include_url=False)]
        raise _failed(source, tree.problems + [problem for problem in seen if problem.key not in known]) from None
    if tree.problems:
        raise _failed(source, tree.problems)
    return found


def missing_for_training(job: Job) -> list[str]:
    """What a valid job still lacks before it can be trained on, in words."""
    missing = []
    if not job.data.train:
        missing.append("data.train is empty; training needs files")
    if job.data.format in ("csv", "parquet", "slots", "elasticctr") and not (job.features.slots or job.features.dense):
        missing.append(f"features.slots and features.dense are empty; format {job.data.format} has none of its own")
    return missing


def _failed(source: str, problems: Sequence[JobProblem]) -> JobError:
    # Stable sort: problems of the file by line, then those of --set, as they were given.
    ordered = sorted(problems, key=lambda problem: (problem.override, problem.line or 0))
    count = "1 error" if len(ordered) == 1 else f"{len(ordered)} errors"
    return JobError("\n".join([f"{source}: {count}", *(f"  {problem}" for problem in ordered)]), errors=ordered)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise UnreadableError(JobProblem("", f"no such file{_neighbour(file)}")) from None
    except OSError as error:
        raise UnreadableError(JobProblem("", f"cannot be read: {error.strerror}")) from None
    if len(content) > MAX_BYTES:
        raise UnreadableError(JobProblem("", f"larger than {MAX_BYTES} bytes; a job file is a few kilobytes"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(JobProblem("", "not UTF-8", line)) from None


def _neighbour(file: Path) -> str:
    try:
        names = [entry.name for entry in file.parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return ""
    match = closest(file.name, names)
    return f"; did you mean {file.with_name(match)}?" if match else ""
