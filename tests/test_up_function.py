"""`clickline.up`, called by a program: what it reports, what it gives back, and that nothing is left of it."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest

import clickline
from clickline.data.synthetic import write_criteo
from clickline.launch import stack_events as events
from clickline.launch.stack_events import StackEvent, Stage
from clickline.processes.process_identity import alive


@pytest.fixture
def job(tmp_path: Path) -> clickline.Job:
    write_criteo(tmp_path / "log.tsv", rows=2000, seed=1, test_rows=400, ids=30_000)
    data = {"format": "criteo", "train": [str(tmp_path / "log.train.tsv")], "test": [str(tmp_path / "log.test.tsv")]}
    return clickline.Job.model_validate({"name": "small", "data": data, "model": {"name": "lr"}})


@pytest.mark.heavy
def test_a_program_trains_and_serves_with_one_call(tmp_path: Path, job: clickline.Job) -> None:
    seen: list[StackEvent] = []
    with clickline.up(job, state=tmp_path / "state", port=0, workers=1, on_event=seen.append) as stack:
        report = stack.report
        stack.poll()
        request = urllib.request.Request(  # noqa: S310  (an address of our own)
            f"{report.http}/predict", data=json.dumps({"instances": [report.samples[0].features]}).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            assert json.load(answer)["predictions"] == pytest.approx([report.samples[0].probability])
        pids = [component["pid"] for component in report.components]

    started = [event.stage for event in seen if isinstance(event, events.StageStarted)]
    assert started == [stage for stage in Stage if stage is not Stage.DATA]
    assert [event.stage for event in seen if isinstance(event, events.StageEnded)] == started
    processes = [event for event in seen if isinstance(event, events.ProcessStarted)]
    assert [event.started for event in processes] == list(range(1, 12))
    assert {event.expected for event in processes} == {11}
    (last, *_) = [event for event in reversed(seen) if isinstance(event, events.MeasuringProgress)]
    assert (last.rows, last.total, last.version) == (400, 400, 1)

    assert (report.training, report.version, report.kind) == ("trained", 1, "base")
    assert report.served is not None
    assert report.served.rows == 400
    assert report.served.auc == pytest.approx(report.trained_auc, abs=1e-5)
    assert len(pids) == 11
    assert not any(alive(pid) for pid in pids if pid is not None)
    assert not (tmp_path / "state" / "suite.json").exists()


def test_what_is_wrong_with_a_job_is_an_error_before_anything_starts(tmp_path: Path, job: clickline.Job) -> None:
    seen: list[StackEvent] = []
    wrong = job.model_copy(update={"data": job.data.model_copy(update={"train": [str(tmp_path / "nowhere")]})})
    with pytest.raises(clickline.DataError, match="nowhere"):
        clickline.up(wrong, state=tmp_path / "state", on_event=seen.append)
    assert seen == []
    assert not (tmp_path / "state" / "suite.json").exists()
