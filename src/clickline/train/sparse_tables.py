"""Native tables made from the job's settings.

A table itself is `clickline._native.Table`; here only the job's settings become its arguments, with each slot's own
admission and eviction put over those of all slots. Beware that the order of `slots` is that of the batch's columns:
a push names a key's slot by that number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from clickline import _native
from clickline.config.features import Slot
from clickline.config.tables import Admission, Eviction, Tables, TableSettings
from clickline.data.embeddings import Embedding

BUCKETS = 4096
"""Keys fall into so many buckets, and buckets are dealt out to servers: native/base/hash.h."""
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


class SlotPolicy(NamedTuple):
    """When keys of a slot get a row, and when they lose it: the tuple that a native table takes."""

    admission_count: int
    """A key gets a row when it is seen this many times,"""
    probability: float
    """with this probability each time."""
    unseen_for: int
    min_score: float
    show_weight: float
    click_weight: float

    @property
    def admits_later(self) -> bool:
        """Whether a key may have to wait for its row."""
        return self.admission_count > 1 or self.probability < 1

    @property
    def evicts(self) -> bool:
        """Whether a sweep may drop rows."""
        return self.unseen_for > 0 or self.min_score > 0


def owned_buckets(*, part: int, parts: int) -> tuple[int, int]:
    """The first bucket of a server, and the first behind it."""
    return BUCKETS * part // parts, BUCKETS * (part + 1) // parts


def cuts_by_owner(keys: NDArray[np.uint64], parts: int) -> list[int]:
    """Where each owner's keys begin, and the end: keys in the order of buckets fall into one slice for each."""
    # bucket_of of native/base/hash.h: the product wraps at 64 bits, and its 12 highest bits are the bucket. Plans order
    # keys by bucket, so a binary search finds the bounds.
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
    """The job's settings for a declaration's table."""
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


def policies_of(*, tables: Tables, slots: Sequence[Slot]) -> list[SlotPolicy]:
    """One policy per slot, in the slots' order; none at all if no slot delays admission or evicts, which is faster."""
    policies = [_policy(slot.admission or tables.admission, slot.eviction or tables.eviction) for slot in slots]
    return policies if any(policy.admits_later or policy.evicts for policy in policies) else []


def _policy(admission: Admission, eviction: Eviction) -> SlotPolicy:
    return SlotPolicy(
        admission_count=admission.count,
        probability=admission.probability,
        unseen_for=eviction.unseen_for,
        min_score=eviction.min_score,
        show_weight=eviction.show_weight,
        click_weight=eviction.click_weight,
    )
