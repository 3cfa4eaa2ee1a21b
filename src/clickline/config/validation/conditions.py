"""Conditions under which keys of the job have an effect; `effects.py` has the conditions of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clickline.config.features import Dense, Features, Slot
from clickline.config.job import Job
from clickline.config.loading.origins import Path
from clickline.config.section import Section
from clickline.config.tables import Eviction, TableSettings


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What decides whether a key has an effect: the job, and what only its model and its format know."""

    job: Job
    features: Features
    """Those of the job, with what the format brings where the job names none."""
    model_keys: tuple[str, ...] | None = None
    """Those of embedding_dim, hidden and dropout that the model takes; None if the model is not known."""
    table_kinds: frozenset[str] | None = None
    """The tables that the model has: embedding, linear; None if that is not known."""


Condition = Callable[[RunFacts, Path], str | None]
"""Why a key has no effect; None if it has one. The path tells elements of lists apart."""


def always(_facts: RunFacts, _path: Path) -> None:
    """The key has an effect in every run, or every run refuses what is wrong about it."""


def when(holds: Callable[[RunFacts], bool], reason: str) -> Condition:
    return lambda facts, _path: None if holds(facts) else reason


def strategies(*strategies: str) -> Condition:
    """Only under some strategies."""

    def condition(facts: RunFacts, _path: Path) -> str | None:
        way = facts.job.resolved_strategy
        return None if way in strategies else f"only {_listed(strategies)} reads it, and this run is {way}"

    return condition


def all_of(*conditions: Condition) -> Condition:
    def condition(facts: RunFacts, path: Path) -> str | None:
        return next((reason for one in conditions if (reason := one(facts, path)) is not None), None)

    return condition


def formats(*formats: str) -> Condition:
    def condition(facts: RunFacts, _path: Path) -> str | None:
        return None if facts.job.data.format in formats else f"only the format {_listed(formats)} reads it"

    return condition


def taken_by_model(name: str) -> Condition:
    def condition(facts: RunFacts, _path: Path) -> str | None:
        # Of an unknown model nothing is claimed: a missing notice does less harm than a wrong one.
        if facts.model_keys is None or name in facts.model_keys:
            return None
        return f"the model {facts.job.model.name} does not take it"

    return condition


def table_exists(facts: RunFacts, path: Path) -> str | None:
    kind = str(path[1])
    if facts.table_kinds is None or kind in facts.table_kinds:
        return None
    return f"the model {facts.job.model.name} has no {kind} table"


def rules(*rules: str) -> Condition:
    """Only under some rules of a table's optimizer."""

    def condition(facts: RunFacts, path: Path) -> str | None:
        # The path is tables, then embedding or linear, then optimizer and its key.
        table: TableSettings = getattr(facts.job.tables, str(path[1]))
        rule = table.optimizer.name
        return None if rule in rules else f"only the optimizer {_listed(rules)} reads it, and this one is {rule}"

    return condition


def scored(facts: RunFacts, path: Path) -> str | None:
    """The weights of a score matter where a score is compared with something."""
    rule = _section_at(facts, path[:-1])
    return None if isinstance(rule, Eviction) and rule.min_score > 0 else "it weighs a score, and min_score is 0"


def left_to_tables(what: str) -> Condition:
    return when(
        lambda facts: any(getattr(slot, what) is None for slot in facts.features.slots) or not facts.features.slots,
        f"every slot has its own {what}",
    )


def swept(facts: RunFacts, _path: Path) -> str | None:
    tables = facts.job.tables
    rules = [tables.eviction, *(slot.eviction for slot in facts.features.slots if slot.eviction is not None)]
    # Counts decay at each sweep too, so sweeps have an effect even if no row is evicted.
    if tables.count_decay < 1 or any(rule.unseen_for or rule.min_score for rule in rules):
        return None
    return "no row is ever evicted: tables.eviction is off"


def statistics(facts: RunFacts, path: Path) -> str | None:
    dense = _section_at(facts, path[:-1])
    if isinstance(dense, Dense) and dense.normalise in ("standard", "minmax"):
        return None
    return "only normalise: standard or minmax reads it"


def split_text(facts: RunFacts, path: Path) -> str | None:
    slot = _section_at(facts, path[:-1])
    if facts.job.data.format in ("slots", "elasticctr") and isinstance(slot, Slot) and slot.separator:
        return f"the format {facts.job.data.format} has several values of a slot as they are"
    return None


def by_url(facts: RunFacts, _path: Path) -> str | None:
    data = facts.job.data
    paths = [path for path in (*data.train, *data.valid, *data.test) if "://" in path or "::" in path]
    # Options are for remote file systems: local files are opened without them, also by URL.
    elsewhere = [path for path in paths if not path.startswith(("file://", "local://"))]
    return None if elsewhere else "no path of data is a URL of another file system"


def own_reader(facts: RunFacts, _path: Path) -> str | None:
    return None if ":" in facts.job.data.format else f"the format {facts.job.data.format} is built in"


def text_format(facts: RunFacts, _path: Path) -> str | None:
    if facts.job.data.format in ("criteo", "slots", "elasticctr", "csv"):
        return None
    return f"the format {facts.job.data.format} is not text that is cut into blocks"


def criteo_defaults(facts: RunFacts, _path: Path) -> str | None:
    job = facts.job
    if job.data.format != "criteo":
        return "only the format criteo reads it"
    return "features.slots and features.dense are given" if job.features.slots and job.features.dense else None


def _listed(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _section_at(facts: RunFacts, path: Path) -> object:
    place: object = facts.job
    for part in path:
        if isinstance(part, int):
            place = place[part] if isinstance(place, list) else None
        else:
            place = getattr(place, part, None) if isinstance(place, Section) else None
    return place
