"""Frozen parts of a model (`train.frozen`): dense parameters and tables that keep the values they start with.

A pattern names a dense parameter (`mlp.0.weight`), all parameters below a name (`mlp`, `cross.*`) or a table
(`embedding`, `linear`). A frozen table is read as in predictions: a key without a row counts as zeros, and gets none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clickline.config import Job
from clickline.config.loading.suggestions import suggestion
from clickline.errors import JobProblem, ModelError
from clickline.models.base import Model
from clickline.train.frozen.frozen_names import frozen_tables, is_frozen
from clickline.train.sparse_tables import sweeps

_KEY = "train.frozen"


def freeze(model: Model, patterns: Sequence[str]) -> None:
    """Let the dense parameters that patterns name have no gradients, and so no steps. Raises ModelError."""
    for problem in _unknown(model, patterns):
        raise ModelError(f"{problem.key}: {problem.message}")
    for name, parameter in model.named_parameters():
        if is_frozen(name, patterns):
            parameter.requires_grad_(False)


def frozen_problems(job: Job, model: Model) -> Iterator[JobProblem]:
    """What is wrong with the patterns of a job, of which this is the model before `freeze`."""
    patterns, problems = job.train.frozen, list(_unknown(model, job.train.frozen))
    yield from problems
    names, tables = list(_names(model)), frozen_tables(model.embeddings, patterns)
    if not problems and all(is_frozen(name, patterns) for name in names):
        yield JobProblem(_KEY, "nothing of the model is left to learn; leave a part out")
    listed = ", ".join(sorted(tables))
    if tables and job.resolved_strategy == "geo":
        yield JobProblem(
            _KEY, f"the table {listed} cannot be frozen under geo, where trainers have rows of their own: use async"
        )
    if tables and sweeps(tables=job.tables, slots=job.features.slots):
        yield JobProblem(
            _KEY, f"the table {listed} is frozen, but eviction, or count_decay, would change it: turn that off"
        )


def _unknown(model: Model, patterns: Sequence[str]) -> Iterator[JobProblem]:
    names = list(_names(model))
    parts = sorted({name.partition(".")[0] for name in names})
    for place, pattern in enumerate(patterns):
        if not any(is_frozen(name, [pattern]) for name in names):
            message = f"{pattern!r} names no part of {type(model).__name__}; {suggestion(pattern, parts, kind='parts')}"
            yield JobProblem(f"{_KEY}[{place}]", message)


def _names(model: Model) -> Iterator[str]:
    yield from (name for name, _ in model.named_parameters())
    yield from dict.fromkeys(one.table for one in model.embeddings.values())
