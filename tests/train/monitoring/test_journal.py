"""What a run writes down can be read back by those who read it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from clickline.config.metric_settings import MetricSettings
from clickline.data.batch import Batch
from clickline.errors import CheckpointError
from clickline.train.learner import Learned
from clickline.train.monitoring.journal import Journal
from clickline.train.monitoring.metric_interval import Interval
from support.small_disks import small_disk


def test_tensorboard_reads_our_event_files(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    journal = Journal(tmp_path, tensorboard=True, resumed_at=None)
    journal.line(kind="train", step=7, epoch=0, figures={"loss": 0.5, "auc": 0.75})
    journal.line(kind="train", step=300, epoch=0, figures={"loss": 0.25})
    journal.close()
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(7, 0.5), (300, 0.25)]
    assert [(e.step, e.value) for e in events.Scalars("train/auc")] == [(7, 0.75)]


def test_resuming_forgets_lines_past_the_checkpoint_and_half_a_line(tmp_path):
    journal = Journal(tmp_path, tensorboard=False, resumed_at=None)
    for step in (10, 20, 30):
        journal.line(kind="train", step=step, epoch=0, figures={})
    journal.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')
    Journal(tmp_path, tensorboard=False, resumed_at=20).close()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20]


def test_an_unfinished_interval_survives_a_checkpoint():
    rng = np.random.default_rng(1)
    whole, cut = Interval(), Interval()
    steps = []
    for size in (5, 3, 8):
        batch = Batch(
            labels=(rng.random((size, 1)) < 0.5).astype(np.float32),
            dense=np.zeros((size, 0), np.float32),
            keys=np.zeros(0, np.uint64),
            weights=rng.random(size).astype(np.float32),
        )
        steps.append((batch, Learned(float(rng.random()), rng.normal(size=(size, 1)).astype(np.float32))))
    for number, (batch, learned) in enumerate(steps):
        whole.add(batch, learned)
        if number == 2:
            cut = Interval.restored(cut.tensors())
        cut.add(batch, learned)
    a, b = (one.figures(MetricSettings(), labels=2) for one in (whole, cut))
    a.pop("rows_per_second")
    b.pop("rows_per_second")
    assert a == b
    assert a["rows"] == 16
    assert a["loss"] == pytest.approx(np.mean([learned.loss for _, learned in steps]))


def test_a_journal_that_cannot_be_rewritten_for_want_of_room_says_so(tmp_path):
    with small_disk(tmp_path / "disk", size=1 << 16) as disk:
        run = disk.path / "run"
        journal = Journal(run, tensorboard=False, resumed_at=None)
        for step in range(1, 4):
            journal.line(kind="train", step=step, epoch=0, figures={"loss": 0.5})
        journal.close()
        before = (run / "metrics.jsonl").read_bytes()
        disk.fill()
        with pytest.raises(CheckpointError, match=r"metrics\.jsonl: cannot be written: .*No space left"):
            Journal(run, tensorboard=False, resumed_at=2)
        disk.make_room()
        assert (run / "metrics.jsonl").read_bytes() == before
        Journal(run, tensorboard=False, resumed_at=2).close()
        assert len((run / "metrics.jsonl").read_text().splitlines()) == 2
