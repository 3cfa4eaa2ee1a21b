"""Prometheus metrics of a live run: every process answers for itself, on loopback, and the status says where."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.eventually import eventually
from support.processes import run, small_settings, start, write_job

pytestmark = pytest.mark.heavy
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
Samples = dict[tuple[str, str], float]
EVERYBODY = ["coordinator.0", "pserver.0", "pserver.1", "trainer.0", "trainer.1"]


@pytest.fixture
def live(criteo: dict[str, str], tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A run that goes on until it is stopped."""
    settings = small_settings(criteo, tmp_path) | {
        "cluster": {"pservers": 2, "trainers": 2, "threads": 1, "metrics": True},
        "checkpoint": {"every_epochs": 1},
    }
    settings["train"] = {"batch_size": 100, "log_every": 7, "epochs": 10_000}
    process = start("train", write_job(tmp_path / "job.yaml", settings))
    try:
        yield process, tmp_path / "runs" / "small"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def addresses(directory: Path) -> dict[str, str] | None:
    """Where everybody answers, once there has been a checkpoint and so something to see."""
    file = directory / "status.json"
    status = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    found = {member["name"]: member["metrics"] for member in status.get("members", ()) if "metrics" in member}
    return found if len(found) == len(EVERYBODY) and status["checkpoint"] else None


def scraped(address: str) -> Samples:
    """Each sample by its name and its label beside run, role and rank."""
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310
        text = answer.read().decode()
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.startswith("clickline_"):
                assert sample.labels.pop("run") == "small"
                assert f"{sample.labels.pop('role')}.{sample.labels.pop('rank')}" in EVERYBODY
            found[sample.name, next(iter(sample.labels.values()), "")] = sample.value
    return found


def test_every_process_of_a_live_run_answers(live: tuple[subprocess.Popen[str], Path]) -> None:
    process, directory = live
    where = eventually(lambda: addresses(directory), process=process)
    assert sorted(where) == EVERYBODY
    assert all(address.startswith("http://127.0.0.1:") for address in where.values())
    assert len(set(where.values())) == len(EVERYBODY)
    seen = {name: scraped(address) for name, address in where.items()}

    for name in ("pserver.0", "pserver.1"):
        for key in ("pulls", "pushes", "rows_pulled", "rows_pushed", "bytes_sent", "bytes_received", "requests"):
            assert seen[name][f"clickline_{key}_total", ""] > 0, key
        for key in ("repeated", "lost", "discarded", "garbled", "refused"):
            assert seen[name][f"clickline_{key}_total", ""] == 0, key
        assert seen[name]["clickline_staleness", ""] >= 0
        assert seen[name]["clickline_table_rows", "embedding"] > 100
    for name in ("trainer.0", "trainer.1"):
        for key in ("rows", "steps", "requests", "bytes_sent", "bytes_received"):
            assert seen[name][f"clickline_{key}_total", ""] > 0, key
        assert seen[name]["clickline_retries_total", ""] == 0
        assert seen[name]["clickline_queue_depth", ""] >= 0
    run_of = seen["coordinator.0"]
    assert run_of["clickline_run_rows", ""] > 0
    assert run_of["clickline_checkpoints_total", ""] >= 1
    assert run_of["clickline_checkpoint_seconds", ""] >= run_of["clickline_pause_seconds", ""] > 0
    assert run_of["clickline_members", "well"] == len(EVERYBODY)
    assert run_of["clickline_members", "dead"] == 0
    assert ("clickline_pieces", "set_aside") in run_of
    named = {name for samples in seen.values() for name, _ in samples if name.startswith("clickline_")}
    assert named == set(re.findall(r"^\| `(\w+)` \|", PAGE, flags=re.MULTILINE))
    for samples in seen.values():
        assert samples["clickline_memory_peak_bytes", ""] > 10 << 20
        assert samples["process_resident_memory_bytes", ""] > 10 << 20

    trained = seen["trainer.0"]["clickline_rows_total", ""]
    eventually(lambda: scraped(where["trainer.0"])["clickline_rows_total", ""] > trained, process=process)
    shown = run("status", directory).stdout
    for name, address in where.items():
        assert f"metrics of {name}: {address}" in shown

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    for address in where.values():
        with pytest.raises(urllib.error.URLError):
            scraped(address)


def test_nobody_answers_unless_asked_to(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = small_settings(criteo, tmp_path) | {"cluster": {"pservers": 1, "trainers": 1, "threads": 1}}
    assert run("train", write_job(tmp_path / "job.yaml", settings)).returncode == 0
    status = json.loads((tmp_path / "runs" / "small" / "status.json").read_text(encoding="utf-8"))
    assert not any("metrics" in member for member in status["members"])
