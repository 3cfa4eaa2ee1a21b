"""Contradictions between keys of a job, each right by itself: found without data, model or environment."""

from __future__ import annotations

from collections.abc import Iterator

from clickline.config.job import Job
from clickline.config.loading.suggestions import suggestion
from clickline.config.metric_settings import CALIBRATION, LARGER_IS_BETTER, SMALLER_IS_BETTER
from clickline.errors import JobProblem

ON_SERVERS = ("sync", "async", "half_async", "geo")
"""Strategies whose rows live on parameter servers."""


def strategy_problems(job: Job) -> Iterator[JobProblem]:
    """A strategy with processes that it has no use for, or without those that it needs."""
    strategy, cluster = job.strategy, job.cluster
    if strategy in ON_SERVERS and cluster.pservers == 0:
        yield JobProblem(
            "strategy", f"{strategy} needs parameter servers: set cluster.pservers to at least 1, or strategy: auto"
        )
    if strategy in ("single", "collective") and cluster.pservers:
        kind = "one process" if strategy == "single" else "trainers alone"
        yield JobProblem(
            "cluster.pservers",
            f"{cluster.pservers} parameter servers, but strategy {strategy} trains in {kind}: set it to 0, or "
            f"strategy to one of {', '.join(ON_SERVERS)}",
        )
    if strategy == "single" and cluster.trainers > 1:
        yield JobProblem(
            "cluster.trainers",
            f"{cluster.trainers} trainers, but strategy single is one process: set it to 1, or strategy: collective",
        )


def stopping_problems(job: Job) -> Iterator[JobProblem]:
    """Early stopping without what it goes by."""
    if job.train.early_stopping.patience and not job.data.valid:
        yield JobProblem(
            "train.early_stopping.patience",
            f"{job.train.early_stopping.patience} epochs without improvement, but data.valid is empty, so nothing is "
            "measured after an epoch: name files to validate on, or set it to 0",
        )


def stopping_metric_problems(job: Job) -> Iterator[JobProblem]:
    """A figure of early stopping that no validation of this job can have."""
    key, metric = "train.early_stopping.metric", job.train.early_stopping.metric
    names = [*LARGER_IS_BETTER, *SMALLER_IS_BETTER, CALIBRATION]
    names += [f"recall@{k}" for k in job.metrics.recall_at]
    names += [reference.rpartition(":")[2] for reference in job.metrics.own]
    # Figures of the first label have plain names, those of the others their label in front.
    known = names + [f"{label}.{name}" for label in job.features.labels[1:] for name in names]
    figure = metric.rpartition(".")[2]
    if metric not in known:
        hint = " (recall@k needs k in metrics.recall_at)" if figure.startswith("recall@") else ""
        yield JobProblem(key, f"no figure {metric!r}{hint}; {suggestion(metric, known, kind='figures')}")
    elif figure == "gauc" and job.features.group is None:
        yield JobProblem(key, "gauc needs features.group, the column whose values are the groups")


def sweep_problems(job: Job) -> Iterator[JobProblem]:
    """Sweeps within an epoch, which parameter servers do not make."""
    if job.resolved_strategy in ON_SERVERS and job.tables.evict_every:
        yield JobProblem(
            "tables.evict_every",
            f"tables.evict_every is {job.tables.evict_every}, but parameter servers sweep at the end of each epoch: "
            "leave it 0, or use strategy: single or collective",
        )


def missing_for_training(job: Job) -> Iterator[JobProblem]:
    """What a valid job still lacks before it can be trained on."""
    if not job.data.train:
        yield JobProblem("data.train", "data.train is empty; training needs files")
    if lacks_features(job):
        message = f"features.slots and features.dense are empty; format {job.data.format} has none of its own"
        yield JobProblem("features.slots", message)


def lacks_features(job: Job) -> bool:
    """Whether there is nothing to learn from; the Criteo format brings its own features."""
    return job.data.format != "criteo" and not (job.features.slots or job.features.dense)
