"""What several tests need: small synthetic data, and a job that trains on it in a second or two."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from delivery_summary import write_deliveries
from fault_summary import write_faults
from processes import small_settings

# Started in the background, or by nohup, these are ignored, and so would they be by every process that a test stops.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Here, since only this file is read in every process."""
    write_faults(terminalreporter)
    write_deliveries(terminalreporter)


@pytest.fixture(scope="session")
def criteo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Train and test files of synthetic Criteo text."""
    from clickline.data.synthetic import write_criteo

    directory = tmp_path_factory.mktemp("criteo")
    write_criteo(directory / "data.tsv", rows=6000, seed=3, ids=30_000, test_rows=1500)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}


@pytest.fixture
def small_job(criteo: dict[str, str], tmp_path: Path) -> Job:
    """A job that trains in a second or two."""
    return Job.model_validate(small_settings(criteo, tmp_path))
