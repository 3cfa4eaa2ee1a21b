"""The checks before a run: everything it will need is there, and nothing in its job contradicts the rest.

All problems are found at once, each with its key and line, and none of them reaches training: `clickline validate`,
`train`, `up` and the roles of a cluster run the same checks, before anything is written. Keys that were given and
have no effect in this run are found here as well; they are reported, not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from clickline.config import Job
from clickline.config.loading.origins import Origins, Path, key_path, key_text, leaves
from clickline.config.loading.reader import Draft, LoadedJob, refusal
from clickline.config.section import Section
from clickline.config.validation import contradictions
from clickline.config.validation.effects import notices
from clickline.data import input_files
from clickline.data.schema_checks import feature_problems
from clickline.errors import ClicklineError, DataError, JobError, JobProblem, ModelError
from clickline.train.preflight_subject import Subject

Lookup = Literal["model", "data"]
"""What is looked for outside the job: the user's own model and metrics, or data files with their reader and secrets."""
EVERYTHING: tuple[Lookup, ...] = ("model", "data")


@dataclass(frozen=True, slots=True)
class Check:
    """One kind of problem, and what must be known before it can be looked for."""

    find: Callable[[Subject], Iterable[JobProblem]]
    reads: tuple[str, ...]
    """Keys, or sections, that it judges: not called where one of them could not be read."""
    error: type[ClicklineError] = JobError
    needs: Lookup | None = None


_FEATURES = ("features", "data.format", "data.delimiter")
_PATHS = ("data.train", "data.valid", "data.test", "data.storage")
CHECKS = (
    Check(lambda s: contradictions.strategy_problems(s.job), ("strategy", "cluster.pservers", "cluster.trainers")),
    Check(lambda s: contradictions.host_problems(s.job), ("strategy", "cluster.hosts")),
    Check(lambda s: contradictions.output_problems(s.job), ("output",)),
    Check(
        lambda s: contradictions.placement_problems(s.job),
        ("data.placement", "strategy", "cluster.pservers", "cluster.trainers"),
    ),
    Check(lambda s: contradictions.stopping_problems(s.job), ("train.early_stopping.patience", "data.valid")),
    Check(
        lambda s: contradictions.stopping_metric_problems(s.job),
        ("train.early_stopping.metric", "train.loss", "metrics", "features.labels", "features.group"),
    ),
    Check(lambda s: contradictions.loss_problems(s.job), ("train.loss", "metrics.recall_at")),
    Check(Subject.metric_problems, ("metrics.own",), needs="model"),
    Check(
        lambda s: contradictions.sweep_problems(s.job),
        ("strategy", "cluster.pservers", "cluster.trainers", "tables.evict_every"),
    ),
    Check(lambda s: () if s.lacks_features else feature_problems(s.job.data, s.features), _FEATURES),
    Check(Subject.request_problems, ("model.name", "model.params", "features.labels", "data.format"), ModelError),
    Check(Subject.build_problems, ("model.name", "model.params", *_FEATURES), ModelError),
    Check(
        Subject.frozen_problems,
        ("train.frozen", "model", "tables", "strategy", "cluster.pservers", "cluster.trainers", *_FEATURES),
        needs="model",
    ),
    Check(lambda s: input_files.reader_problems(s.job.data), ("data.format", "data.reader"), needs="data"),
    Check(lambda s: input_files.secret_problems(s.job.data), ("data.reader", "data.storage"), needs="data"),
    Check(lambda s: s.files.problems(), _PATHS, DataError, needs="data"),
    Check(Subject.column_problems, (*_PATHS, *_FEATURES, "data.header"), DataError, needs="data"),
)


@dataclass(frozen=True, slots=True)
class CheckedJob:
    """A job that may be run."""

    loaded: LoadedJob
    notices: list[JobProblem]
    """Keys that were given and have no effect in this run, and why."""

    @property
    def job(self) -> Job:
        return self.loaded.job


def check_draft(draft: Draft, *, look_for: tuple[Lookup, ...] = EVERYTHING, training: bool = True) -> CheckedJob:
    """Run all checks on a job that was read. `training`: what a job lacks for training is a problem, too.

    Raises the error of the kind that all problems have, or a JobError if they are of several kinds.
    """
    subject = Subject(draft.loaded.job, own_model="model" in look_for)
    found: list[tuple[JobProblem, type[ClicklineError]]] = [(problem, JobError) for problem in draft.problems]
    locate = partial(_located, given=draft.loaded.given)
    found += [
        (locate(problem), kind)
        for problem, kind in _problems(subject, broken=draft.broken, look_for=look_for, training=training)
    ]
    _refuse(draft.source, found)
    given = [path for path, _ in leaves(subject.job) if draft.loaded.given.describe(path) != "default"]
    return CheckedJob(draft.loaded, [locate(notice) for notice in _notices(subject, given)])


def check_job(job: Job) -> list[JobProblem]:
    """The same for a job that was made in Python: raises, or returns the notices."""
    subject = Subject(job, own_model=True)
    _refuse("job", list(_problems(subject, broken=(), look_for=EVERYTHING, training=True)))
    return list(_notices(subject, _set_in_python(job, type(job)(), ())))


def check_options(*, resume: bool, fresh: bool, warm_start: bool) -> list[str]:
    """Ways to begin that exclude each other are refused; one that has no effect beside another is reported."""
    if resume and fresh:
        raise JobError("--resume goes on with the run's checkpoints, --fresh throws them away: give one of them")
    if resume and warm_start:
        return ["--warm-start has no effect: --resume goes on with the weights of the run's own checkpoint"]
    return []


def _problems(
    subject: Subject, *, broken: Sequence[Path], look_for: tuple[Lookup, ...], training: bool
) -> Iterator[tuple[JobProblem, type[ClicklineError]]]:
    known = {key_text(path) for path in broken}
    if training:
        yield from (
            (problem, JobError)
            for problem in contradictions.missing_for_training(subject.job)
            if not _touches(problem.key, known)
        )
    for check in CHECKS:
        # A check that reads a broken key would report a consequence of a problem that is reported already.
        needed = check.needs is None or check.needs in look_for
        if needed and not any(_touches(key, known) for key in check.reads):
            yield from ((problem, check.error) for problem in check.find(subject))


def _touches(key: str, broken: Iterable[str]) -> bool:
    """Whether `key` is one of `broken`, or around one of them, or inside one."""
    return any(not other or _inside(key, other) or _inside(other, key) for other in broken)


def _inside(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}.", f"{outer}["))


def _notices(subject: Subject, given: Iterable[Path]) -> Iterator[JobProblem]:
    for path, reason in notices(subject.facts, given):
        yield JobProblem(key_text(path), reason)
    if subject.job.model.name == "mmoe" and len(subject.job.features.labels) == 1:
        yield JobProblem("model.name", "mmoe with one label is an expensive dnn: name a second in features.labels")


def _located(problem: JobProblem, given: Origins) -> JobProblem:
    line, override = given.nearest(key_path(problem.key) or ())
    return replace(problem, line=line, override=override)


def _set_in_python(section: Section, default: Section, path: Path) -> Iterator[Path]:
    """Keys that were given to the types and are not as they would be anyway."""
    for name in type(section).model_fields:
        value, usual, place = getattr(section, name), getattr(default, name, None), (*path, name)
        if name not in section.model_fields_set or value == usual:
            continue
        if isinstance(value, Section):
            yield from _set_in_python(value, usual if isinstance(usual, Section) else type(value)(), place)
        else:
            yield place


def _refuse(source: str, found: Sequence[tuple[JobProblem, type[ClicklineError]]]) -> None:
    if not found:
        return
    error = refusal(source, [problem for problem, _ in found])
    kinds = {kind for _, kind in found}
    raise (kinds.pop() if len(kinds) == 1 else JobError)(str(error), errors=error.errors)
