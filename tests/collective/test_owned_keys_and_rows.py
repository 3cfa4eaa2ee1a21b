"""Which rank owns a key, which rows it reads, and what is kept of how far it came."""

from __future__ import annotations

import json

import numpy as np

from clickline import _native
from clickline.collective.owned_tables import shares
from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.schema import Schema
from clickline.train.loop.piece_share import empty_batch, full_batches
from clickline.train.monitoring.piece_progress import PieceProgress, Turn
from clickline.train.sparse_tables import owned_buckets


def test_every_key_has_one_owner_and_owners_have_slices():
    keys = np.random.default_rng(1).integers(0, 2**64, 10_000, dtype=np.uint64)
    plan = _native.Plan(keys, None, columns=1, select=[0], pooling=[0], labels=np.zeros(len(keys), np.float32))
    for owners in (1, 2, 3, 5, 4096):
        counts = shares(plan.unique, owners)
        assert sum(counts) == len(plan.unique)
        first = 0
        for owner, count in enumerate(counts):
            begin, end = owned_buckets(part=owner, parts=owners)
            assert all(begin <= _native.bucket_of(key) < end for key in plan.unique[first : first + count].tolist())
            first += count
    assert shares(np.empty(0, np.uint64), 3) == [0, 0, 0]


def _rows(first: int, last: int) -> Batch:
    numbers = np.arange(first, last)
    return Batch(
        labels=numbers.astype(np.float32).reshape(-1, 1),
        dense=np.empty((len(numbers), 0), np.float32),
        keys=numbers.astype(np.uint64),
    )


def test_batches_are_full_whatever_the_pieces_are():
    # Pieces 4 and 6, of 7 and 2 rows, and of none at all the 8th; 6 was begun before.
    parts = [(_rows(0, 5), 4, 5), (_rows(5, 7), 4, 7), (_rows(7, 9), 6, 12), (_rows(9, 20), 10, 11)]
    found = list(full_batches(iter(parts), size=4))
    assert [batch.labels[:, 0].tolist() for batch, _, _ in found] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9, 10, 11],
        [12, 13, 14, 15],
        [16, 17, 18, 19],
    ]
    assert [(piece, done) for _, piece, done in found] == [(4, 4), (6, 11), (10, 3), (10, 7), (10, 11)]
    assert [len(batch) for batch, _, _ in full_batches(iter(parts), size=6)] == [6, 6, 6, 2]
    assert list(full_batches(iter([]), size=4)) == []


def test_progress_of_all_ranks_is_one():
    own = {0: [0, 2, 4], 1: [1, 3, 5]}
    ranks = [PieceProgress(piece_bytes=10, trainers=2, pieces=6) for _ in own]
    ranks[0].heed(Turn(200, 2, 30), own=own[0])
    ranks[1].heed(Turn(200, 1, 50), own=own[1])
    whole = PieceProgress(piece_bytes=10, trainers=2, pieces=6)
    for rank in ranks:
        whole.join(PieceProgress.from_dict(json.loads(json.dumps(rank.to_dict()))))
    assert whole.finished == {0}
    assert whole.begun == {1: 50, 2: 30}
    # Three ranks go on from there; one of them is through with what it has.
    after = PieceProgress.from_dict(whole.to_dict())
    after.heed(Turn(100, None), own=[2, 5])
    whole.join(after)
    assert whole.finished == {0, 2, 5}
    assert whole.begun == {1: 50}


def test_an_empty_batch_has_the_columns_of_the_others():
    job = Job.model_validate(
        {
            "data": {"format": "csv"},
            "features": {"labels": ["a", "b"], "slots": ["s", "t"], "weight": "w", "time": "when"},
        }
    )
    batch = empty_batch(Schema.of(job.data, job.features))
    assert len(batch) == 0
    assert batch.labels.shape == (0, 2)
    assert batch.weights is not None
    assert batch.times is not None
    assert batch.groups is None
