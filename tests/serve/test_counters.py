"""Counters in files: right with many threads, many workers, and after a worker's death."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from pathlib import Path

import numpy as np
import pytest

from clickline.serve.http.acceptor import Balance
from clickline.serve.metrics import metrics_page
from clickline.serve.metrics.counters import (
    METRICS,
    MOST_LABELS,
    OTHERS,
    PROBABILITIES,
    Counters,
    series,
    sum_of_workers,
)


def page(directory: Path) -> list[str]:
    return metrics_page.page(directory, times={}).decode().splitlines()


def test_nothing_is_lost_between_threads(tmp_path: Path) -> None:
    counts = Counters(tmp_path / "0.counts")

    def work() -> None:
        for _ in range(5000):
            counts.count("clickline_rows_total", 2.0)
            counts.observe("clickline_seconds", 0.001, "total")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts.total("clickline_rows_total") == (40_000, 40_000)
    times, seconds = counts.total("clickline_seconds", "total")
    assert times == 20_000
    assert abs(seconds - 20) < 1e-6


def test_workers_are_added_up_and_gauges_by_their_own_rule(tmp_path: Path) -> None:
    for rank in range(3):
        counts = Counters(tmp_path / f"{rank}.counts")
        counts.count("clickline_failures_total", rank + 1, "malformed")
        counts.gauge("clickline_connections", 10)
        counts.gauge("clickline_version", 7 - rank, "ctr")
        counts.observe("clickline_batch_rows", 16)
        if rank == 2:
            counts.count("clickline_failures_total", 1, "timeout")
    lines = page(tmp_path)
    assert 'clickline_failures_total{reason="malformed"} 6' in lines
    assert 'clickline_failures_total{reason="timeout"} 1' in lines
    assert "clickline_connections 30" in lines
    assert 'clickline_version{model="ctr"} 5' in lines
    assert 'clickline_batch_rows_bucket{le="8"} 0' in lines
    assert 'clickline_batch_rows_bucket{le="16"} 3' in lines
    assert 'clickline_batch_rows_bucket{le="+Inf"} 3' in lines
    assert "clickline_batch_rows_sum 48.0" in lines
    assert "clickline_batch_rows_count 3" in lines


def test_a_worker_that_comes_back_goes_on_counting(tmp_path: Path) -> None:
    before = Counters(tmp_path / "0.counts")
    before.count("clickline_rows_total", 5)
    before.observe("clickline_seconds", 0.1, "total")
    before.gauge("clickline_connections", 99)
    before.gauge("clickline_version", 3, "ctr")
    after = Counters(tmp_path / "0.counts")
    after.count("clickline_rows_total", 2)
    after.observe("clickline_seconds", 0.1, "total")
    after.count("clickline_keys_total", 1)
    lines = page(tmp_path)
    assert "clickline_rows_total 7" in lines
    assert 'clickline_seconds_count{stage="total"} 2' in lines
    assert "clickline_keys_total 1" in lines
    assert not [line for line in lines if line.startswith(("clickline_connections ", "clickline_version{"))]


def test_prometheus_reads_the_page(tmp_path: Path) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    counts = Counters(tmp_path / "0.counts")
    counts.count("clickline_requests_total", 1, series("plain", "ctr", 'a "quoted" \\ tag\n'))
    counts.observe("clickline_seconds", 0.0123, "rows")
    counts.count("unheard_of_total", 2, "x")
    counts.observe("unheard_of_seconds", 2)
    text = metrics_page.page(tmp_path, times={"ctr": time.time() - 60}).decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name.removesuffix("_total") for name in METRICS} <= set(found)
    labels = {"protocol": "plain", "model": "ctr", "variant": 'a "quoted" \\ tag\n'}
    assert found["clickline_requests"].samples[0].labels == labels
    assert 60 <= found["clickline_data_age_seconds"].samples[0].value < 120
    buckets = [one.value for one in found["clickline_seconds"].samples if one.name.endswith("_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == 1
    assert found["unheard_of"].samples[0].value == 2


def test_names_from_outside_cannot_fill_the_file(tmp_path: Path) -> None:
    counts = Counters(tmp_path / "0.counts")
    for number in range(10_000):
        counts.count("clickline_requests_total", 1, f"tag {number}")
    counts.count("clickline_requests_total", 1, "x" * 10_000)
    for number in range(1000):
        counts.observe(f"histogram_{number}", 1.0)
    found = sum_of_workers([tmp_path / "0.counts"])["clickline_requests_total"]
    assert len(found) == MOST_LABELS + 1
    assert found[OTHERS][0] == 10_001 - MOST_LABELS


def test_values_of_a_batch_are_counted_as_each_by_itself(tmp_path: Path) -> None:
    values = np.array([[0.5, 0.0], [0.0005, 1.0], [0.25, 2.0], [0.5000001, 0.3]], np.float32)
    counts = Counters(tmp_path / "0.counts")
    for label, column in (("click", 0), ("buy", 1)):
        for _ in range(2):
            counts.observe_all("clickline_predicted_probability", values[:, column], series("ctr", "", label))
    found = sum_of_workers([tmp_path / "0.counts"])["clickline_predicted_probability"]
    for label, column in (("click", 0), ("buy", 1)):
        numbers = found[series("ctr", "", label)]
        expected = [0.0] * (len(PROBABILITIES) + 1)
        for value in values[:, column]:
            expected[bisect_left(PROBABILITIES, float(value))] += 2
        assert numbers[:-1] == expected
        assert numbers[-1] == pytest.approx(2 * values[:, column].sum())
    lines = page(tmp_path)
    assert 'clickline_predicted_probability_count{model="ctr",label="click"} 8' in lines
    assert 'clickline_predicted_probability_bucket{model="ctr",label="click",le="0.25"} 4' in lines


def test_a_file_that_is_being_made_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "1.counts").write_bytes(b"")
    Counters(tmp_path / "0.counts").count("clickline_rows_total")
    assert "clickline_rows_total 1" in page(tmp_path)


def test_a_worker_with_more_connections_lets_others_go_first(tmp_path: Path) -> None:
    one, other = (Balance(tmp_path, rank=rank, workers=2) for rank in range(2))
    assert not one.ahead()
    one.report(2)
    other.report(1)
    assert one.ahead()
    assert not other.ahead()
    alone = Balance(tmp_path, rank=0, workers=1)
    alone.report(5)
    assert not alone.ahead()
