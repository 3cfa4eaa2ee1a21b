"""The table of conditions under which each key of the job has an effect.

A key that is given and has no effect in a run is reported by `clickline validate` and at the start of the run, with
the reason that stands here. A new key needs an entry; a test fails without one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from clickline.config.loading.origins import Path
from clickline.config.validation.conditions import (
    Condition,
    RunFacts,
    all_of,
    always,
    by_url,
    criteo_defaults,
    formats,
    left_to_tables,
    own_reader,
    rules,
    scored,
    split_text,
    statistics,
    strategies,
    swept,
    table_exists,
    taken_by_model,
    text_format,
    when,
)
from clickline.config.validation.contradictions import ON_SERVERS

_OPEN = frozenset({"data.reader", "data.storage", "model.params", "cluster.kubernetes.environment"})
"""Keys whose value is a mapping of the user's own words."""
_SERVERS = strategies(*ON_SERVERS)
_MANY = strategies(*ON_SERVERS, "collective")
_ONE_READER = strategies("single", "collective")
_VALID = when(lambda facts: bool(facts.job.data.valid), "data.valid is empty")
_EPOCHS = when(lambda facts: facts.job.train.epochs > 1, "there is one epoch only, and rows restart after one")
_MEASURED = when(lambda facts: bool(facts.job.data.valid or facts.job.data.test), "data.valid and data.test are empty")
_CLICKS = when(
    lambda facts: facts.job.train.loss == "log", "train.loss is squared, so no row is predicted to be a click"
)
_METRICS = when(lambda facts: facts.job.cluster.metrics, "cluster.metrics is false")
_TCP = when(
    lambda facts: facts.job.resolved_strategy == "collective" or facts.job.cluster.transport == "tcp",
    "cluster.transport is unix",
)
_FITTED = when(
    lambda facts: (
        facts.job.train.loss == "squared"
        or any(
            dense.normalise in ("standard", "minmax") and (dense.center is None or dense.spread is None)
            for dense in facts.features.dense
        )
    ),
    "no dense feature is normalised by statistics that are to be fitted",
)


def _or_on_hosts(condition: Condition) -> Condition:
    """Also where the job has hosts, whose launcher and runners read it."""
    return lambda facts, path: None if facts.job.cluster.hosts else condition(facts, path)


def _table_of(kind: str) -> Iterator[tuple[str, Condition]]:
    key = f"tables.{kind}"
    anywhere = ("name", "learning_rate", "l1", "l2", "clip")
    by_rule = {
        "weight_decay": ("adamw",),
        "beta1": ("adam", "adamw"),
        "beta2": ("adam", "adamw"),
        "epsilon": ("adagrad", "adam", "adamw"),
        "initial": ("adagrad", "ftrl"),
    }
    for name in anywhere:
        yield f"{key}.optimizer.{name}", table_exists
    for name, readers in by_rule.items():
        yield f"{key}.optimizer.{name}", all_of(table_exists, rules(*readers))
    yield f"{key}.restart_epochs", all_of(table_exists, _EPOCHS)
    yield f"{key}.init_scale", table_exists


def _policies_of(prefix: str, *, admission: Condition, eviction: Condition) -> Iterator[tuple[str, Condition]]:
    yield f"{prefix}.admission.count", admission
    yield f"{prefix}.admission.probability", admission
    yield f"{prefix}.eviction.unseen_for", eviction
    yield f"{prefix}.eviction.min_score", eviction
    yield f"{prefix}.eviction.show_weight", all_of(eviction, scored)
    yield f"{prefix}.eviction.click_weight", all_of(eviction, scored)


EFFECTS: dict[str, Condition] = {
    "name": always,
    "seed": always,
    "threads": strategies("single"),
    "output": always,
    "strategy": always,
    "data.format": always,
    "data.train": always,
    "data.valid": always,
    "data.test": always,
    "data.placement": _SERVERS,
    "data.reader": own_reader,
    "data.storage": by_url,
    "data.pipe_command": text_format,
    "data.delimiter": formats("csv"),
    "data.header": formats("csv"),
    "data.shuffle_rows": always,
    "data.threads": always,
    "data.block_bytes": text_format,
    "data.max_bad_rows": always,
    "features.labels": always,
    "features.slots": always,
    "features.slots[].name": always,
    "features.slots[].column": always,
    "features.slots[].bucket": always,
    "features.slots[].pooling": always,
    "features.slots[].keys_of": always,
    "features.slots[].separator": split_text,
    "features.slots[].max_values": always,
    **dict(_policies_of("features.slots[]", admission=always, eviction=always)),
    "features.dense": always,
    "features.dense[].name": always,
    "features.dense[].column": always,
    "features.dense[].size": always,
    "features.dense[].normalise": always,
    "features.dense[].center": statistics,
    "features.dense[].spread": statistics,
    "features.dense[].missing": always,
    "features.integers": criteo_defaults,
    "features.weight": always,
    "features.time": always,
    "features.group": _MEASURED,
    "features.keys": always,
    "features.fit_rows": _FITTED,
    "model.name": always,
    "model.embedding_dim": taken_by_model("embedding_dim"),
    "model.hidden": taken_by_model("hidden"),
    "model.dropout": taken_by_model("dropout"),
    "model.params": always,
    **dict(_table_of("embedding")),
    **dict(_table_of("linear")),
    **dict(_policies_of("tables", admission=left_to_tables("admission"), eviction=left_to_tables("eviction"))),
    "tables.evict_every": swept,
    "tables.count_decay": always,
    "train.loss": always,
    "train.epochs": always,
    "train.batch_size": always,
    "train.optimizer.name": always,
    "train.optimizer.learning_rate": always,
    "train.optimizer.weight_decay": always,
    "train.optimizer.clip": always,
    "train.frozen": always,
    "train.average": always,
    "train.staleness": _ONE_READER,
    "train.log_every": always,
    "train.log_format": always,
    "train.max_steps": always,
    "train.early_stopping.patience": always,
    "train.early_stopping.metric": _VALID,
    "train.early_stopping.direction": _VALID,
    "train.early_stopping.min_delta": _VALID,
    "train.tensorboard": always,
    "metrics.threshold": _CLICKS,
    "metrics.recall_at": _MEASURED,
    "metrics.calibration_bins": always,
    "metrics.own": _MEASURED,
    "checkpoint.every_steps": always,
    "checkpoint.every_epochs": always,
    "checkpoint.keep": always,
    "checkpoint.interrupt_timeout": always,
    "checkpoint.transfer": _MANY,
    "cluster.pservers": always,
    "cluster.trainers": always,
    "cluster.agree.prefetch": strategies("async", "half_async"),
    "cluster.agree.send_queue": strategies("async"),
    "cluster.agree.merge": strategies("half_async"),
    "cluster.agree.max_staleness": strategies("async", "half_async"),
    "cluster.agree.damping": strategies("async", "half_async"),
    "cluster.agree.geo_steps": strategies("geo"),
    "cluster.agree.dense_every": strategies("async", "half_async"),
    "cluster.wire": _SERVERS,
    "cluster.host": all_of(_MANY, _TCP),
    "cluster.transport": _SERVERS,
    "cluster.threads": _MANY,
    # Of launchers that start processes on other hosts: the job alone does not say whether one will.
    "cluster.hosts": always,
    "cluster.hosts[].host": always,
    "cluster.hosts[].ssh_port": always,
    "cluster.hosts[].address": always,
    "cluster.hosts[].pservers": always,
    "cluster.hosts[].trainers": always,
    "cluster.hosts[].python": always,
    "cluster.kubernetes.namespace": always,
    "cluster.kubernetes.image": always,
    "cluster.kubernetes.pull_secret": always,
    "cluster.kubernetes.service_account": always,
    "cluster.kubernetes.volumes": always,
    "cluster.kubernetes.volumes[].claim": always,
    "cluster.kubernetes.volumes[].path": always,
    "cluster.kubernetes.volumes[].read_only": always,
    "cluster.kubernetes.environment": always,
    "cluster.kubernetes.secrets": always,
    "cluster.kubernetes.secrets[].variable": always,
    "cluster.kubernetes.secrets[].secret": always,
    "cluster.kubernetes.secrets[].key": always,
    "cluster.kubernetes.intranet": always,
    "cluster.kubernetes.queue": always,
    "cluster.kubernetes.kueue_queue": always,
    "cluster.kubernetes.priority_class": always,
    "cluster.kubernetes.keep": always,
    "cluster.kubernetes.pserver.cpu": always,
    "cluster.kubernetes.pserver.memory": always,
    "cluster.kubernetes.pserver.gpus": always,
    "cluster.kubernetes.trainer.cpu": always,
    "cluster.kubernetes.trainer.memory": always,
    "cluster.kubernetes.trainer.gpus": always,
    "cluster.root": always,
    "cluster.port": always,
    "cluster.heartbeat": _SERVERS,
    "cluster.warn_after": always,
    "cluster.evict_after": _or_on_hosts(_SERVERS),
    "cluster.start_timeout": _MANY,
    "cluster.deadline": _SERVERS,
    "cluster.retry_for": _MANY,
    "cluster.restarts": _SERVERS,
    "cluster.piece_bytes": _MANY,
    "cluster.piece_attempts": _SERVERS,
    "cluster.metrics": always,
    "cluster.metrics_host": _METRICS,
    "cluster.metrics_port": _METRICS,
}
"""For every key of the job: the condition under which it has an effect."""


def ineffective(facts: RunFacts, path: Path) -> str | None:
    """Why the key at `path` has no effect in this run; None if it has one."""
    pattern = pattern_of(path)
    if pattern not in EFFECTS and any(key.startswith(f"{pattern}.") for key in EFFECTS):
        return None  # a section that was given as null, as in the job that a run leaves: there is nothing in it
    return EFFECTS[pattern](facts, path)


def pattern_of(path: Path) -> str:
    """The table's key for a path: list indices become [], and a mapping of the user's own words is one key."""
    text = ""
    for part in path:
        text += "[]" if isinstance(part, int) else f".{part}" if text else part
        if text in _OPEN:
            return text
    return text


def notices(facts: RunFacts, given: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Which of the keys that were given have no effect, and why."""
    reported = set()
    for path in given:
        reason = ineffective(facts, path)
        # Keys inside a mapping of the user's own words are reported as that mapping, once.
        shown = next((path[:end] for end in range(len(path)) if pattern_of(path[:end]) in _OPEN), path)
        if reason is not None and shown not in reported:
            reported.add(shown)
            yield shown, f"has no effect: {reason}"
