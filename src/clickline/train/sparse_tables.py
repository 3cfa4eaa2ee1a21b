"""From the job's words to a native table.

A table itself is `clickline._native.Table`; here only the job's settings become its arguments, with each slot's own
admission and eviction put over those of all slots. Beware that the order of `slots` is that of the batch's columns:
a push names a key's slot by that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.config.features import Slot
from clickline.config.tables import Admission, Eviction, Tables, TableSettings
from clickline.data.embeddings import Embedding

BUCKETS = 4096
"""Keys fall into so many buckets, and buckets are dealt out to servers: native/hash.h."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
Policy = tuple[int, float, int, float, float, float]


def owned_buckets(*, part: int, parts: int) -> tuple[int, int]:
    """The first bucket of a server, and the first behind it."""
    return BUCKETS * part // parts, BUCKETS * (part + 1) // parts


def cuts_by_owner(keys: NDArray[np.uint64], parts: int) -> list[int]:
    """Where each owner's keys begin, and the end: keys in the order of buckets fall into one slice for each."""
    buckets = (keys * _SPREAD) >> np.uint64(52)
    bounds = [owned_buckets(part=part, parts=parts)[0] for part in range(parts)] + [BUCKETS]
    cuts: list[int] = np.searchsorted(buckets, np.array(bounds, np.uint64)).tolist()
    return cuts


def sweeps(*, tables: Tables, slots: Sequence[Slot]) -> bool:
    """Whether a sweep would do anything: a slot has an eviction rule, or counts decay."""
    rules = [tables.eviction, *(slot.eviction for slot in slots if slot.eviction is not None)]
    return tables.count_decay < 1 or any(rule.unseen_for > 0 or rule.min_score > 0 for rule in rules)


def build_tables(
    *, embeddings: Mapping[str, Embedding], tables: Tables, slots: Sequence[Slot], seed: int
) -> dict[str, _native.Table]:
    """An empty table for every declaration that owns one, in the order of declaration."""
    return {
        name: build_table(dim=one.dim, table=settings_of(one, tables), tables=tables, slots=slots, seed=seed)
        for name, one in embeddings.items()
        if one.table == name
    }


def settings_of(embedding: Embedding, tables: Tables) -> TableSettings:
    """The job's words about a declaration's table."""
    return tables.linear if embedding.kind == "linear" else tables.embedding


def build_table(*, dim: int, table: TableSettings, tables: Tables, slots: Sequence[Slot], seed: int) -> _native.Table:
    """An empty table with rows of `dim` weights; rows of any key start as a function of the key and `seed`."""
    optimizer = table.optimizer
    return _native.Table(
        dim=dim,
        optimizer=optimizer.name,
        learning_rate=optimizer.learning_rate,
        l1=optimizer.l1,
        l2=optimizer.l2,
        weight_decay=optimizer.weight_decay,
        beta1=optimizer.beta1,
        beta2=optimizer.beta2,
        epsilon=optimizer.epsilon,
        initial=optimizer.initial,
        clip=optimizer.clip,
        init_scale=table.init_scale,
        seed=seed,
        policies=policies_of(tables=tables, slots=slots),
    )


def policies_of(*, tables: Tables, slots: Sequence[Slot]) -> list[Policy]:
    """One per slot, in the slots' order; none at all if no slot selects or evicts, which spares the table the look."""
    policies = [_policy(slot.admission or tables.admission, slot.eviction or tables.eviction) for slot in slots]
    return policies if any(selects(policy) or evicts(policy) for policy in policies) else []


def selects(policy: Policy) -> bool:
    """Whether keys may have to wait for a row."""
    count, probability, *_ = policy
    return count > 1 or probability < 1


def evicts(policy: Policy) -> bool:
    """Whether rows may be dropped by a sweep."""
    _, _, unseen_for, min_score, _, _ = policy
    return unseen_for > 0 or min_score > 0


def _policy(admission: Admission, eviction: Eviction) -> Policy:
    return (
        admission.count,
        admission.probability,
        eviction.unseen_for,
        eviction.min_score,
        eviction.show_weight,
        eviction.click_weight,
    )
