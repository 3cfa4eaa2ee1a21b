"""From a file to a job, or to a list of everything that is wrong with it.

All problems are reported at once, each with its key and line, so that a job is mended in one round. Checking is
strict: "3" is not 3, and true is not 1. A job made in Python is checked by the same types, but less strictly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from clickline.config.durations import is_duration
from clickline.config.job import NAME_LENGTH, NAME_PATTERN, Job
from clickline.config.loading.origins import Origins, key_path, key_text, leaves
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.overrides import override
from clickline.config.loading.problem_messages import meant_by, problem_of, show
from clickline.config.loading.suggestions import closest
from clickline.config.loading.yaml_lines import RepeatedKeys, Tree, UnreadableError, parse
from clickline.config.section import Section
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
    given: Origins = field(default_factory=Origins, repr=False, compare=False)
    """The line of every key that was given."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A job as far as it could be read: what is wrong in it is left out, so that the rest can be checked as well."""

    loaded: LoadedJob
    problems: list[JobProblem]
    broken: tuple[Keys, ...]
    """Paths of what was left out."""

    @property
    def source(self) -> str:
        return "job" if self.loaded.path is None else str(self.loaded.path)


def read_job(path: str | os.PathLike[str] | None, *, overrides: Sequence[str] = ()) -> LoadedJob:
    """Read and check a job. `overrides` are KEY=VALUE texts, as given to --set. Raises JobError with all problems."""
    draft = read_draft(path, overrides=overrides)
    if draft.problems:
        raise refusal(draft.source, draft.problems)
    return draft.loaded


def read_draft(path: str | os.PathLike[str] | None, *, overrides: Sequence[str] = ()) -> Draft:
    """Read a job, mistakes and all. Raises JobError only if the file cannot be read as YAML."""
    file = None if path is None else Path(path)
    source = "job" if file is None else str(file)
    tree = Tree(value=None) if file is None else read_tree(file)
    if tree.value is None:
        tree.value = {}
    if not isinstance(tree.value, dict):
        raise refusal(source, [JobProblem("", f"a job is a mapping of keys to values, not {show(tree.value)}", 1)])
    return draft_of(tree, file, overrides=overrides)


def read_tree(file: Path, *, repeated_keys: RepeatedKeys = "refuse") -> Tree:
    """The values of a YAML file, whatever they mean. Raises JobError if it cannot be read."""
    try:
        return parse(_text(file), repeated_keys=repeated_keys)
    except UnreadableError as error:
        raise refusal(str(file), [error.problem]) from None


def draft_of(tree: Tree, file: Path | None, *, overrides: Sequence[str] = ()) -> Draft:
    """The job of a tree that is a mapping; `file` is where it came from."""
    for argument in overrides:
        override(tree, argument)
    # After the overrides, so that a name given by --set is not replaced by that of the file.
    if file is not None and "name" not in tree.value and (name := name_of(file)):
        tree.value["name"] = name
    job, problems, broken = _tolerated(tree)
    problems += _ages_in_steps(tree, job)
    origins = {key_text(leaf): tree.origins.describe(leaf) for leaf, _ in leaves(job)}
    return Draft(LoadedJob(job, origins, file, tree.origins), problems, broken)


def _ages_in_steps(tree: Tree, job: Job) -> Iterator[JobProblem]:
    """Durations where the log has no time, so that rows age by steps: 7d would be 604,800 of them."""
    for path, _ in leaves(job) if job.features.time is None else ():
        # In the job, 7d is a number of seconds already; only the tree still tells a duration from a number of steps.
        value: Any = tree.value
        for part in path:
            inside = isinstance(part, int) if isinstance(value, list) else isinstance(value, dict) and part in value
            value = value[part] if inside else None
        if path[-1] == "unseen_for" and is_duration(value):
            line, by_override = tree.origins.nearest(path)
            message = f'"{value}" is a duration, but without features.time rows age by steps: give a number of steps'
            yield JobProblem(key_text(path), message, line, override=by_override)


def name_of(file: Path) -> str:
    """The name of a run whose job does not give one: that of its file; empty if that cannot name a directory."""
    name = file.name.removesuffix(file.suffix).removesuffix(".job")
    return name if re.fullmatch(NAME_PATTERN, name) and len(name) <= NAME_LENGTH else ""


def _tolerated(tree: Tree) -> tuple[Job, list[JobProblem], tuple[Keys, ...]]:
    """The job without what is wrong in it, all that is wrong, and the paths of what was left out."""
    problems, value = list(tree.problems), tree.value
    # A key with a problem in the YAML, such as one given twice, is reported for that alone: its value is uncertain.
    known = {problem.key for problem in problems}
    broken = [path for key in known if (path := key_path(key)) is not None]
    # pydantic validates all or nothing. So what it refuses is taken out and the rest is validated again, until it is a
    # job: checks that need a whole job can then report more mistakes in the same run.
    first_round = True
    while True:
        try:
            return Job.model_validate(value, strict=True), problems, tuple(broken)
        except ValidationError as error:
            findings: list[dict[str, Any]] = [dict(finding) for finding in error.errors(include_url=False)]
        if first_round:  # findings of a second round only follow from what the first has taken out
            first_round = False
            seen = [problem_of(finding, tree.origins, Job) for finding in findings]
            problems += [problem for problem in seen if problem.key not in known]
        before = value
        for finding in findings:
            value, left_out = _without(value, finding["loc"])
            broken.append(left_out)
            if finding["type"] == "extra_forbidden" and (meant := meant_by(finding["loc"])):
                broken.append(meant)  # a misspelt key: the one that was meant has not the value it was to have
        # Nothing could be taken out, so every further round would find the same. The empty path marks the whole job as
        # broken: later checks, which skip broken keys, then report nothing that only follows from this.
        if value is before:
            return Job(), problems, ((),)


def _without(value: Any, path: Keys) -> tuple[Any, Keys]:
    """`value` without the innermost key on the way to `path`, and the path of that key.

    An element of a list is not taken out alone: those after it would be counted, and reported, as others.
    """
    deepest, place = 0, value
    for depth, part in enumerate(path):
        inside = isinstance(place, dict) and part in place
        if inside:
            deepest = depth + 1
        elif not (isinstance(place, list) and isinstance(part, int) and part < len(place)):
            break
        place = place[part]
    if deepest == 0:  # it is gone, with another finding about the same key
        return value, path
    return _dropped(value, path[:deepest]), path[:deepest]


def _dropped(value: Any, path: Keys) -> Any:
    first, rest = path[0], path[1:]
    if not rest:
        return {key: inner for key, inner in value.items() if key != first}
    # A copy: `tree.value` must stay as it was given, for the checks that read it afterwards.
    copy = value.copy()
    copy[first] = _dropped(value[first], rest)
    return copy


def read_settings(
    path: str | os.PathLike[str], root: type[Settings], *, what: str, given: Mapping[str, Any] | None = None
) -> Settings:
    """Settings of another file than a job, read and checked in the same way. `what` names the file in messages.

    `given` are settings that come from elsewhere and that the file must not have.
    """
    tree = read_tree(Path(path))
    if not isinstance(tree.value, dict):
        raise refusal(str(path), [JobProblem("", f"{what} is a mapping of keys to values, not {show(tree.value)}", 1)])
    _merge(tree, tree.value, given or {})
    return _checked(tree, root, str(path))


def _merge(tree: Tree, place: dict[str, Any], given: Mapping[str, Any], at: Keys = ()) -> None:
    """Put settings into the file's; what both have is a problem."""
    for name, value in given.items():
        path = (*at, name)
        if isinstance(value, Mapping) and isinstance(below := place.setdefault(name, {}), dict):
            _merge(tree, below, value, path)
        elif name in place:
            line, _ = tree.origins.nearest(path)
            tree.problems.append(
                JobProblem(key_text(path), "given by the program that starts this; leave it out", line)
            )
        else:
            place[name] = value


def checked_settings(values: Mapping[str, Any], root: type[Settings], *, source: str) -> Settings:
    """Settings that come from elsewhere than a YAML file, checked in the same way; messages then have no lines."""
    return _checked(Tree(value=dict(values)), root, source)


def _checked(tree: Tree, root: type[Settings], source: str) -> Settings:
    found, problems = settings_of(tree, root)
    if found is None:
        raise refusal(source, problems)
    return found


def settings_of(tree: Tree, root: type[Settings]) -> tuple[Settings | None, list[JobProblem]]:
    """The settings of a tree, or everything that is wrong with them."""
    try:
        found = root.model_validate(tree.value, strict=True)
    except ValidationError as error:
        known = {problem.key for problem in tree.problems}
        seen = [problem_of(dict(finding), tree.origins, root) for finding in error.errors(include_url=False)]
        return None, tree.problems + [problem for problem in seen if problem.key not in known]
    return (None if tree.problems else found), tree.problems


def refusal(source: str, problems: Sequence[JobProblem]) -> JobError:
    """The error that lists all problems of a job, or of another file."""
    # Stable sort: problems of the file by line, then those of --set, as they were given.
    ordered = sorted(problems, key=lambda problem: (problem.override, problem.line or 0))
    count = "1 error" if len(ordered) == 1 else f"{len(ordered)} errors"
    return JobError("\n".join([f"{source}: {count}", *(f"  {problem}" for problem in ordered)]), errors=ordered)


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            # One byte beyond the limit is enough to refuse a file; one of gigabytes is never loaded.
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
