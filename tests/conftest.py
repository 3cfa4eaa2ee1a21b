"""What several tests need: small synthetic data, and a job that trains on it in a second or two."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from clickline.config import Job
from support.kubernetes.cluster_fixture import cluster  # noqa: F401  (a fixture)
from support.made_once import made_once
from support.processes import small_settings
from support.summaries.delivery_summary import write_deliveries
from support.summaries.fault_summary import write_faults

# Read when PyTorch loads. Tests run side by side, and their tensors are so small that a second thread for them costs
# more than it saves, the more so if it spins while it waits. Jobs that say how many threads they want get them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Hypothesis fails an example that takes 200 ms, and a test whose examples are slow to draw: on a busy machine any may.
settings.register_profile("clickline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clickline")
# Started in the background, or by nohup, these are ignored, and so would they be by every process that a test stops.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Here, since only this file is read in every process."""
    write_faults(terminalreporter)
    write_deliveries(terminalreporter)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A job that asks for more threads gets them, but does not leave them to the tests after its own."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


@pytest.fixture(scope="session")
def criteo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Train and test files of synthetic Criteo text."""
    from clickline.data.synthetic import write_criteo

    def write(directory: Path) -> None:
        write_criteo(directory / "data.tsv", rows=6000, seed=3, ids=30_000, test_rows=1500)

    directory = made_once(tmp_path_factory, "criteo", write)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}


@pytest.fixture
def small_job(criteo: dict[str, str], tmp_path: Path) -> Job:
    """A job that trains in a second or two."""
    return Job.model_validate(small_settings(criteo, tmp_path))


@pytest.fixture(scope="session")
def trained_model(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a small model, to be published."""
    from clickline.train.session import train_job

    def train(directory: Path) -> None:
        settings = small_settings(criteo, directory)
        settings["train"] = {"batch_size": 100, "log_every": 20, "epochs": 1, "max_steps": 20}
        train_job(Job.model_validate(settings))

    directory = made_once(tmp_path_factory, "trained-model", train)
    return max((directory / "runs" / "small" / "checkpoints").glob("step-*"))
