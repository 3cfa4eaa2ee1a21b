"""Fewer pieces of data than trainers: some trainers would only wait, and the user is told so and what to do."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from clickline.data.leasing.pieces import shortage
from support.clusters import Run, settings_for


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("strategy", "cluster"),
    [("async", {"pservers": 1, "trainers": 2}), ("collective", {"pservers": 0, "trainers": 2})],
)
def test_a_compressed_file_for_two_trainers_trains_and_says_that_one_waits(
    strategy: str, cluster: dict[str, Any], criteo: dict[str, str], tmp_path: Path
) -> None:
    packed = tmp_path / "train.tsv.gz"
    packed.write_bytes(gzip.compress(Path(criteo["train"]).read_bytes()))
    data = {"train": [str(packed)], "test": []}
    live = Run(settings_for(criteo, tmp_path, "few", strategy=strategy, data=data, cluster=cluster))
    try:
        assert live.ends()["rows"] == 4500
        assert "the data is in 1 piece for 2 trainers: 1 of them has nothing to read" in live.err
        assert "cluster.trainers to 1" in live.err
    finally:
        live.close()


def test_enough_pieces_need_no_word() -> None:
    assert shortage(2, trainers=2) is None
    few = shortage(2, trainers=5)
    assert few is not None
    assert few.startswith("the data is in 2 pieces for 5 trainers: 3 of them have nothing to read; write")
    assert few.endswith("or set cluster.trainers to 2")
