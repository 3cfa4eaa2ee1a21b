"""What `import clickline` offers: these names, no others, each looked up when it is first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import clickline
from clickline import errors
from clickline.config.job import Job
from clickline.config.loading.reader import read_job

NAMES = [
    "AsyncClient",
    "CheckpointError",
    "ClicklineError",
    "Client",
    "DataError",
    "Job",
    "JobError",
    "LoadedJob",
    "LocalStack",
    "Model",
    "ModelError",
    "PeerError",
    "Prediction",
    "Reader",
    "RequestError",
    "RowError",
    "VersionError",
    "__version__",
    "read_job",
    "train_job",
    "up",
]


def test_the_names_are_frozen() -> None:
    assert dir(clickline) == NAMES


def test_names_lead_to_what_they_name() -> None:
    assert clickline.Job is Job
    assert clickline.read_job is read_job
    assert clickline.JobError is errors.JobError
    assert clickline.__version__[0].isdigit()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Jobb'; it has .*Job.*read_job"):
        _ = clickline.Jobb


def test_importing_clickline_loads_nothing_heavy() -> None:
    check = "import sys, clickline; sys.exit(bool({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
