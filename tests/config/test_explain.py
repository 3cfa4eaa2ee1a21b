"""Explaining a job: every leaf key once, in the order of definition, with value and origin."""

from __future__ import annotations

from clickline.config import Job
from clickline.config.loading.explanation import Row, rows
from clickline.config.loading.reader import read_job


def test_every_key_is_there_once_in_the_order_of_definition() -> None:
    found = rows(Job(), {})
    keys = [row.key for row in found]
    assert len(keys) == len(set(keys))
    assert keys[:6] == ["name", "seed", "threads", "output", "data.format", "data.train"]
    assert keys[-2:] == ["cluster.metrics_host", "cluster.metrics_port"]
    assert Row("model.hidden", [256, 128], "default") in found
    assert Row("tables.linear.optimizer.name", "ftrl", "default") in found


def test_slots_show_what_was_given_unless_everything_is_asked_for() -> None:
    loaded = read_job(None, overrides=["features.slots=[C1, {name: C2, pooling: mean}]"])

    def slots(*, everything: bool) -> list[str]:
        found = rows(loaded.job, loaded.origins, everything=everything)
        return [row.key for row in found if row.key.startswith("features.slots")]

    assert slots(everything=False) == ["features.slots[0].name", "features.slots[1].name", "features.slots[1].pooling"]
    assert "features.slots[0].max_values" in slots(everything=True)
    assert "features.slots[0].admission" in slots(everything=True)


def test_values_are_shown_as_they_would_be_written() -> None:
    shown = {row.key: row.shown for row in rows(Job(), {})}
    assert shown["data.header"] == "true"
    assert shown["features.weight"] == "null"
    assert shown["model.hidden"] == "[256, 128]"
    assert shown["output"] == "runs"
    assert Row("x", "", "default").shown == '""'


def test_free_mappings_are_taken_apart() -> None:
    loaded = read_job(None, overrides=["model.params={a: 1, b: {c: [1, 2]}}"])
    found = [(row.key, row.value, row.origin) for row in rows(loaded.job, loaded.origins) if "params" in row.key]
    assert found == [("model.params.a", 1, "override"), ("model.params.b.c", [1, 2], "override")]
