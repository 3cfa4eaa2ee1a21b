"""What a run says of itself, in the status of its job: bounded, and written only if somebody would notice."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import aiohttp
import pytest

from clickline.errors import PeerError
from clickline.operator.controller.progress_poller import read_report
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.run_report import RunReport, is_noticeable, note_termination_message, trainer_status
from support.kubernetes.jobs_client import paddle_job, role

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REPORT = RunReport(phase="training", epoch=2, epochs=3, step=70, rows=7000, progress=0.456, seconds_left=12.7)


def with_(**changes: Any) -> RunReport:
    values = {name: getattr(REPORT, name) for name in REPORT.__struct_fields__}
    return RunReport(**{**values, **changes})


def test_the_status_has_the_figures_that_are_known() -> None:
    report = with_(auc=0.712345678, loss=float("nan"), test={"auc": 0.7}, rows_per_second=1000.0)
    assert trainer_status(report, now=NOW).to_object() == {
        "phase": "training",
        "progressPercentage": 45,
        "estimatedRemainingSeconds": 12,
        "epoch": 2,
        "epochs": 3,
        "step": 70,
        "rows": 7000,
        "metrics": [
            {"name": "auc", "value": "0.712346"},
            {"name": "rows_per_second", "value": "1000"},
            {"name": "test_auc", "value": "0.7"},
        ],
        "lastUpdatedTime": "2026-01-01T00:00:00Z",
    }


def test_what_a_pod_makes_up_stays_within_bounds() -> None:
    wild = with_(
        phase="x" * 10_000,
        progress=1e300,
        seconds_left=float("inf"),
        rows=-(10**30),
        step=10**30,
        test={f"{number}" * 100: 1.0 for number in range(1000)},
    )
    status = trainer_status(wild, now=NOW)
    assert (status.progress_percentage, status.estimated_remaining_seconds) == (100, 0)
    assert (status.rows, status.step) == (0, 2**53)
    assert len(status.phase) == 63
    assert len(status.metrics) == 20
    assert len(str(status.to_object())) < 4000


@pytest.mark.parametrize(
    ("changes", "seconds", "noticeable"),
    [
        ({}, 1000, False),
        ({"rows": 7001, "loss": 0.3, "rows_per_second": 5.0, "step": 71}, 59, False),
        ({"rows": 7001}, 60, True),
        ({"progress": 0.46}, 0, True),
        ({"progress": 0.459}, 0, False),
        ({"auc": 0.7}, 0, True),
        ({"epoch": 3}, 0, True),
        ({"phase": "evaluating"}, 0, True),
    ],
)
def test_a_change_is_written_only_if_it_is_noticed(changes: dict[str, Any], seconds: int, noticeable: bool) -> None:
    before, later = trainer_status(REPORT, now=NOW), NOW + timedelta(seconds=seconds)
    assert is_noticeable(None, before, now=NOW)
    assert is_noticeable(before, trainer_status(with_(**changes), now=later), now=later) == noticeable


def job_with(**status: Any) -> PaddleJob:
    body = paddle_job("j", worker=role(1))
    body["metadata"] |= {"namespace": "n", "uid": "u"}
    return PaddleJob.from_object({**body, "status": status})


@pytest.mark.parametrize(
    ("said", "rows"),
    [
        ('{"phase": "finished", "epoch": 1, "epochs": 1, "step": 9, "rows": 90, "test": {"auc": 0.8}}', 90),
        ("loss went to 0.1, bye", None),
        ("", None),
    ],
)
def test_what_a_pod_left_when_it_ended_is_what_the_run_came_to(said: str, rows: int | None) -> None:
    pod = ObservedPod(name="j-worker-0", uid="p", role="worker", index=0, state="succeeded", termination_message=said)
    job = job_with(trainerStatus={"phase": "training", "rows": 50})
    status = note_termination_message(job, job.status, [pod], now=NOW)
    assert status.trainer_status is not None
    assert status.trainer_status.rows == (50 if rows is None else rows)
    again = note_termination_message(job, status, [pod], now=NOW + timedelta(seconds=9))
    assert again == status  # which is written once


@contextlib.contextmanager
def answering(code: int, body: bytes, **headers: str) -> Iterator[str]:
    """A pod that answers so, whatever it is asked."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            with contextlib.suppress(OSError):  # the operator does not read on for ever
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/status"
    finally:
        server.shutdown()
        server.server_close()


async def report_at(url: str) -> RunReport:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        return await read_report(session, url)


def test_a_report_is_read() -> None:
    body = b'{"phase": "training", "epoch": 1, "epochs": 1, "step": 3, "rows": 30, "members": [{"more": 1}]}'
    with answering(200, body) as url:
        assert asyncio.run(report_at(url)).rows == 30


@pytest.mark.parametrize(
    ("code", "body", "headers", "message"),
    [
        (404, b"{}", {}, "answers with 404"),
        (302, b"", {"Location": "http://127.0.0.1:1/"}, "answers with 302"),
        (200, b"<html>", {}, "not answer with the status of a run"),
        (200, b'{"phase": "training", "rows": "many"}', {}, "not answer with the status of a run"),
        (200, b" " * (5 << 20), {}, "more than 4194304 bytes"),
        (200, b"\x1f\x8b", {"Content_Encoding": "gzip"}, "not answer with the status of a run"),
    ],
)
def test_whatever_else_a_pod_answers_is_no_report(
    code: int, body: bytes, headers: dict[str, str], message: str
) -> None:
    with answering(code, body, **headers) as url, pytest.raises(PeerError, match=message):
        asyncio.run(report_at(url))
