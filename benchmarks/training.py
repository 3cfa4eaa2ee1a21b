"""The training benchmark's four contenders: D, P, C and T.

Model: 26 slots × 10 dimensions + 13 dense → 400 → 400 → 400 → 1, batch 1024, Adam, two threads, 400,000 synthetic
Criteo rows. D: the dense network alone on ready inputs, gradient to the input included: the limit. P: plain
PyTorch, nn.Embedding(sparse) and SparseAdam, from ids in memory. C: Clickline from keys in memory. T: Clickline
from raw text on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from clickline.config import Job
from clickline.data.batch import Batch
from clickline.data.dataset import Dataset
from clickline.data.normalization import fit
from clickline.data.schema import Schema
from clickline.train.learner import Learner
from clickline.train.monitoring.metric_interval import Interval

BATCH, SLOTS, DIM, DENSE, HIDDEN, THREADS = 1024, 26, 10, 13, 400, 2


def job_for(text: Path) -> Job:
    return Job.model_validate(
        {
            "threads": THREADS,
            "data": {"format": "criteo", "train": [str(text)], "shuffle_rows": 50_000},
            "features": {"integers": "dense"},
            "model": {"name": "dnn", "embedding_dim": DIM, "hidden": [HIDDEN] * 3},
            "tables": {"embedding": {"optimizer": {"name": "adam", "learning_rate": 0.001}}},
            "train": {"batch_size": BATCH, "optimizer": {"name": "adam", "learning_rate": 0.001}},
        }
    )


def memory_batches(job: Job) -> list[Batch]:
    """All batches of the text, parsed beforehand."""
    schema = Schema.of(job.data, job.features)
    dataset = Dataset(data=job.data, schema=schema, paths=job.data.train, batch_size=BATCH, seed=1, shuffle=True)
    return [batch for batch, _ in dataset.batches(epoch=0, start=None)]


def dense_net() -> nn.Sequential:
    widths = [SLOTS * DIM + DENSE, HIDDEN, HIDDEN, HIDDEN]
    layers: list[nn.Module] = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(HIDDEN, 1))


def limit(batches: list[Batch]) -> Callable[[], float]:
    """D."""
    net = dense_net()
    optimizer = torch.optim.Adam(net.parameters(), fused=True)
    inputs = [torch.randn(BATCH, SLOTS * DIM + DENSE) for _ in range(16)]

    def run() -> float:
        started = time.perf_counter()
        rows = 0
        for number, batch in enumerate(batches):
            if len(batch) < BATCH:
                continue
            x = inputs[number % 16].requires_grad_()
            x.grad = None
            loss = binary_cross_entropy_with_logits(net(x)[:, 0], torch.from_numpy(batch.labels[:, 0]))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            float(loss.detach())
            rows += len(batch)
        return rows / (time.perf_counter() - started)

    return run


def plain_pytorch(batches: list[Batch]) -> tuple[Callable[[], float], int]:
    """P, and how many ids its table has: every distinct key of the data as a row number of one nn.Embedding."""
    distinct, index = np.unique(np.concatenate([batch.keys for batch in batches]), return_inverse=True)
    parts = np.split(index, np.cumsum([len(batch.keys) for batch in batches])[:-1])
    ids = [torch.from_numpy(part.reshape(-1, SLOTS).astype(np.int64)) for part in parts]
    embedding = nn.Embedding(len(distinct), DIM, sparse=True)
    net = dense_net()
    sparse = torch.optim.SparseAdam(list(embedding.parameters()))
    optimizer = torch.optim.Adam(net.parameters(), fused=True)

    def run() -> float:
        started = time.perf_counter()
        for batch, rows in zip(batches, ids, strict=True):
            x = torch.cat([torch.from_numpy(batch.dense), embedding(rows).flatten(1)], 1)
            loss = binary_cross_entropy_with_logits(net(x)[:, 0], torch.from_numpy(batch.labels[:, 0]))
            optimizer.zero_grad()
            sparse.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            sparse.step()  # type: ignore[no-untyped-call]
            float(loss.detach())
        return sum(map(len, batches)) / (time.perf_counter() - started)

    return run, len(distinct)


def clickline_from_memory(job: Job, batches: list[Batch]) -> Callable[[], float]:
    """C."""
    learner = Learner(job=job, schema=Schema.of(job.data, job.features), threads=THREADS)
    return lambda: timed(learner, iter([(batch, None) for batch in batches]))


def clickline_from_text(job: Job) -> Callable[[], float]:
    """T."""
    schema = Schema.of(job.data, job.features)
    learner = Learner(job=job, schema=schema, threads=THREADS)

    def run() -> float:
        dataset = Dataset(data=job.data, schema=schema, paths=job.data.train, batch_size=BATCH, seed=1, shuffle=True)
        return timed(learner, dataset.batches(epoch=0, start=None))

    return run


def from_text(job: Job) -> float:
    """Rows per second of one epoch from raw text: fitting the schema and empty tables included."""
    started = time.perf_counter()
    schema = fit(data=job.data, schema=Schema.of(job.data, job.features), paths=job.data.train)
    learner = Learner(job=job, schema=schema, threads=THREADS)
    size = job.train.batch_size
    dataset = Dataset(data=job.data, schema=schema, paths=job.data.train, batch_size=size, seed=1, shuffle=True)
    rows = learn_all(learner, dataset.batches(epoch=0, start=None))
    return rows / (time.perf_counter() - started)


def timed(learner: Learner, batches: Iterator[tuple[Batch, object]]) -> float:
    """Rows per second."""
    started = time.perf_counter()
    rows = learn_all(learner, batches)
    return rows / (time.perf_counter() - started)


def learn_all(learner: Learner, batches: Iterator[tuple[Batch, object]]) -> int:
    """Learn from all batches, with the metrics that a run keeps; gives back how many rows that were."""
    interval = Interval()
    rows = 0
    for batch, _, learned in learner.learn(batches, barrier=lambda _: False):
        interval.add(batch, learned)
        rows += len(batch)
        if len(interval.losses) == 100:
            interval.figures(learner.job.metrics, labels=len(learner.schema.labels))
            interval = Interval()
    return rows
