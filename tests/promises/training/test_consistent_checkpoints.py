"""A checkpoint is one cut through everything: what its book says was trained is what its tables have learned."""

from __future__ import annotations

import pytest

from support.clusters import settings_for, shows_of
from support.programs import PROGRAMS
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy
WITHOUT_MECHANISM = [str(PROGRAMS / "disabled_mechanism.py")]


@pytest.fixture
def settings(tmp_path):
    pattern = write_gated(tmp_path / "data", files=12, rows=500, orders={})

    def make(name: str, **changes):
        changes = {"train": {"epochs": 2}, "checkpoint": {"every_steps": 30}, **changes}
        return gated_settings(settings_for({"train": "", "test": ""}, tmp_path, name, **changes), pattern)

    return make


@pytest.mark.parametrize("way", ["async", "half_async", "geo"])
def test_tables_and_book_agree_at_every_cut(settings, launch, way):
    run = launch(settings(way, strategy=way, cluster={"agree": {"geo_steps": 7}}))
    result = run.ends()
    cuts = run.checkpoints()
    assert len(cuts) >= 5
    for cut in cuts:
        rows = cut.manifest["standing"]["rows"]
        assert set(shows_of(cut).values()) == {float(rows * SLOTS)}, cut.path
    assert cuts[-1].manifest["standing"]["rows"] == result["rows"] == 12_000
    pauses = [line for line in run.err.splitlines() if "stood still for" in line]
    assert len(pauses) == result["cuts"]
    print("\n" + "\n".join(pauses))


def test_without_the_pause_they_do_not_agree(settings, launch, monkeypatch):
    monkeypatch.setenv("FAULT", "pause")
    run = launch(settings("hasty"), program=WITHOUT_MECHANISM)
    run.ends()
    cuts = run.checkpoints()
    wrong = [cut for cut in cuts if set(shows_of(cut).values()) != {float(cut.manifest["standing"]["rows"] * SLOTS)}]
    assert wrong, "cuts were consistent without a pause: the test above shows nothing"
