"""The guide's daily job: its commands as they stand there, and what is left of yesterday's model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from clickline.data.dataset import Dataset
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.versions.maintenance import difference, show
from clickline.versions.store import open_store
from support.page_commands import Reader, shell_blocks


def test_the_daily_job_of_the_guide_keeps_yesterday_and_publishes_a_small_delta(tmp_path: Path) -> None:
    monday, (daily, versions) = shell_blocks("docs/guide.md", heading="Tomorrow")
    reader = Reader(tmp_path)
    (tmp_path / "tmp").mkdir()
    for line in monday:
        reader.types(line)
    before = json.loads(reader.types("clickline evaluate runs/monday monday.tsv --json"))["auc"]
    assert "version 2 (delta) in versions" in reader.types(daily)
    after = json.loads(reader.types("clickline evaluate runs/tuesday monday.tsv --json"))["auc"]
    assert after > before - 0.01

    listed = json.loads(reader.types(f"{versions} --json"))
    assert [(one["version"], one["kind"]) for one in listed] == [(1, "base"), (2, "delta")]
    assert listed[0]["training"]["step"] < listed[1]["training"]["step"]
    store = open_store(tmp_path / "versions")
    trained = open_checkpoint_source(tmp_path / "runs" / "tuesday", threads=1)
    data = Dataset(
        data=trained.job.data,
        schema=trained.schema,
        paths=[str(tmp_path / "tuesday.tsv")],
        batch_size=1000,
        seed=1,
        shuffle=False,
    )
    touched = np.unique(np.concatenate([batch.keys for batch, _ in data.batches(epoch=0)]))
    for name, table in show(store, 2).tables.items():
        assert 0 < table.rows <= len(touched) < table.total / 2
        counts = difference(store, 1, 2)["tables"][name]
        assert counts["rows changed"] + counts["rows added"] == table.rows
