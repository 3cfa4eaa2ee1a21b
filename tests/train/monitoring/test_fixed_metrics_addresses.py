"""Training processes answer at addresses that were fixed: metrics, health and status, whatever the strategy."""

from __future__ import annotations

import json
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clickline.config import Job
from clickline.errors import JobError
from clickline.train.monitoring.metrics_place import metrics_place
from clickline.train.monitoring.metrics_server import MetricsServer
from clickline.train.monitoring.prometheus_metrics import Labelled
from support.clusters import Run, settings_for
from support.ports import port_range

LABELS = Labelled(run="small", role="trainer", rank="0")


def asked(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.heavy
@pytest.mark.parametrize(("strategy", "trainers"), [("single", 1), ("collective", 2)])
def test_a_run_without_coordinator_answers_where_it_was_told_to(
    strategy: str, trainers: int, criteo: dict[str, str], tmp_path: Path
) -> None:
    port = port_range(trainers)
    cluster = {"pservers": 0, "trainers": trainers, "metrics": True, "metrics_port": port}
    settings = settings_for(
        criteo, tmp_path, "fixed", strategy=strategy, cluster=cluster, train={"epochs": 10_000, "log_every": 5}
    )
    live = Run(settings, meant_to_end=True)
    try:
        live.steps(20)
        code, text = asked(port, "/status")
        status = json.loads(text)
        assert (code, status["phase"], status["strategy"]) == (200, "training", strategy)
        found = [member["metrics"] for member in status["members"]]
        assert found == [f"http://127.0.0.1:{port + rank}/metrics" for rank in range(trainers)]
        assert asked(port, "/health") == (200, '{"well": true, "complaints": []}\n')
        for rank in range(trainers):
            samples = metrics_at(port + rank)
            assert samples["clickline_rows_total"] > 0
            assert samples["clickline_table_rows"] > 0
            assert ("clickline_run_rows" in samples) == (rank == 0)
        live.process.send_signal(signal.SIGTERM)
        live.ends(130)  # and what it printed meanwhile is read: a full pipe would keep it from ending
        with pytest.raises(urllib.error.URLError):
            asked(port, "/metrics")
    finally:
        live.close()


def metrics_at(port: int) -> dict[str, float]:
    families = text_string_to_metric_families(asked(port, "/metrics")[1])
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_a_process_that_is_not_well_says_so_with_its_code() -> None:
    complaints: list[str] = []
    server = MetricsServer(("127.0.0.1", 0), labels=LABELS, families=lambda _: iter(()), complaints=lambda: complaints)
    try:
        port = int(server.address.rpartition(":")[2].partition("/")[0])
        assert asked(port, "/health")[0] == 200
        complaints.append("trainer.1 is dead")
        assert asked(port, "/health") == (503, '{"well": false, "complaints": ["trainer.1 is dead"]}\n')
        assert asked(port, "/status")[0] == 404
        with pytest.raises(JobError, match=rf"cannot be answered at 127\.0\.0\.1:{port}: Address already in use; set"):
            MetricsServer(("127.0.0.1", port), labels=LABELS, families=lambda _: iter(()), complaints=list)
    finally:
        server.close()


@pytest.mark.parametrize(
    ("role", "rank", "pservers", "port"),
    [
        ("coordinator", 0, 2, 9100),
        ("pserver", 0, 2, 9101),
        ("pserver", 1, 2, 9102),
        ("trainer", 0, 2, 9103),
        ("trainer", 5, 2, 9108),
        ("trainer", 0, 0, 9100),
        ("trainer", 3, 0, 9103),
    ],
)
def test_every_process_of_a_job_has_a_port_of_its_own(role: str, rank: int, pservers: int, port: int) -> None:
    cluster = {"pservers": pservers, "metrics": True, "metrics_host": "127.0.0.2", "metrics_port": 9100}
    place = metrics_place(Job.model_validate({"cluster": cluster}), role=role, rank=rank, environ={})
    assert place == ("127.0.0.2", port)


@pytest.mark.parametrize(
    ("said", "place"),
    [("9100", ("127.0.0.1", 9100)), ("10.0.0.1:7", ("10.0.0.1", 7)), ("[::1]:9", ("::1", 9)), ("", None)],
)
def test_the_environment_is_enough_for_one_process(said: str, place: Any) -> None:
    assert metrics_place(Job(), role="trainer", rank=0, environ={"CLICKLINE_METRICS": said}) == place


@pytest.mark.parametrize("said", ["here", "a:b", "1:99999"])
def test_an_address_that_is_none_is_named(said: str) -> None:
    with pytest.raises(JobError, match=f"CLICKLINE_METRICS is '{said}', expected HOST:PORT"):
        metrics_place(Job(), role="trainer", rank=0, environ={"CLICKLINE_METRICS": said})


def test_ports_do_not_run_over_the_last() -> None:
    job = Job.model_validate({"cluster": {"pservers": 1, "metrics": True, "metrics_port": 65_535}})
    with pytest.raises(JobError, match=r"trainer\.0 would need port 65537"):
        metrics_place(job, role="trainer", rank=0, environ={})
