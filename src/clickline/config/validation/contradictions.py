"""Contradictions between keys of a job, each right by itself: found without data, model or environment."""

from __future__ import annotations

from collections.abc import Iterator

from clickline.config.job import Job
from clickline.config.loading.suggestions import suggestion
from clickline.config.metric_settings import CLICK_FIGURES, VALUE_FIGURES
from clickline.config.secrets.secret_checks import carries_password
from clickline.errors import JobProblem
from clickline.files.storage import is_local, is_url, protocol_of, protocol_problem

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


def host_problems(job: Job) -> Iterator[JobProblem]:
    """Hosts of which no run can come, whoever starts processes on them."""
    hosts, strategy = job.cluster.hosts, job.strategy
    servers, trainers = (sum(getattr(host, what) for host in hosts) for what in ("pservers", "trainers"))
    ranks = strategy == "collective" or (strategy == "auto" and not servers and trainers > 1)
    addresses = [host.reached_at for host in hosts]
    for node, host in enumerate(hosts):
        if host.reached_at in addresses[:node]:
            yield JobProblem(
                f"cluster.hosts[{node}].host",
                f"{host.reached_at!r} is there twice: give it once, with more pservers or trainers",
            )
        if strategy == "collective" and host.pservers and "pservers" in host.model_fields_set:
            yield JobProblem(
                f"cluster.hosts[{node}].pservers",
                f"{host.pservers} parameter servers, but strategy collective trains in trainers alone: leave it out, "
                f"or set strategy to one of {', '.join(ON_SERVERS)}",
            )
    if hosts and not trainers:
        yield JobProblem("cluster.hosts", "no host has trainers: give at least one of them trainers: 1 or more")
    elif hosts and ranks and not hosts[0].trainers:
        yield JobProblem(
            "cluster.hosts[0].trainers",
            f"0 on {hosts[0].host!r}, the first host: under strategy collective rank 0 runs there and has the run's "
            "directory; set it to 1 or more, or name another host first",
        )
    if hosts and not ranks and not servers and strategy != "single":
        yield JobProblem("cluster.hosts", "no host has pservers: give at least one of them pservers: 1 or more")


def output_problems(job: Job) -> Iterator[JobProblem]:
    """A URL that runs cannot be kept at, as far as that is known without asking the store."""
    output = job.output
    if not is_url(output):
        return
    protocol, trouble = protocol_of(output), None
    if "::" in output:
        trouble = "a chain of file systems; expected a directory or one URL, such as s3://bucket/runs"
    elif carries_password(output):
        trouble = "the address holds a password; credentials are taken from the environment"
    elif protocol in ("memory", "http", "https"):
        kept = "ends with the process" if protocol == "memory" else "can only be read"
        trouble = f"what is at {protocol}:// {kept}; expected a directory, s3:// or webhdfs://"
    elif not is_local(output):
        trouble = protocol_problem(output)
    if trouble is not None:
        yield JobProblem("output", trouble)


def placement_problems(job: Job) -> Iterator[JobProblem]:
    """Data of single nodes without a coordinator that leases it to them."""
    if job.data.placement != "shared" and job.resolved_strategy == "collective":
        yield JobProblem(
            "data.placement",
            f"{job.data.placement} needs parameter servers, whose coordinator leases data by node, and strategy "
            f"collective has none: set it to shared, or strategy to one of {', '.join(ON_SERVERS)}",
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
    key, metric, loss = "train.early_stopping.metric", job.train.stopping_metric, job.train.loss
    names = list(VALUE_FIGURES if loss == "squared" else CLICK_FIGURES)
    names += [f"recall@{k}" for k in job.metrics.recall_at]
    names += [reference.rpartition(":")[2] for reference in job.metrics.own]
    # Figures of the first label have plain names, those of the others their label in front.
    known = names + [f"{label}.{name}" for label in job.features.labels[1:] for name in names]
    figure = metric.rpartition(".")[2]
    if metric not in known:
        hint = " (recall@k needs k in metrics.recall_at)" if figure.startswith("recall@") else ""
        if figure in (*CLICK_FIGURES, *VALUE_FIGURES):
            hint = f" with train.loss {loss}"
        yield JobProblem(key, f"no figure {metric!r}{hint}; {suggestion(metric, known, kind='figures')}")
    elif figure == "gauc" and job.features.group is None:
        yield JobProblem(key, "gauc needs features.group, the column whose values are the groups")


def loss_problems(job: Job) -> Iterator[JobProblem]:
    """Figures of clicks for a model whose labels are numbers."""
    if job.train.loss == "squared" and job.metrics.recall_at:
        yield JobProblem(
            "metrics.recall_at",
            f"recall@{job.metrics.recall_at[0]} is a share of clicks, but train.loss is squared, whose labels are "
            "numbers: leave it empty, or train on labels of 0 and 1 with train.loss: log",
        )


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
