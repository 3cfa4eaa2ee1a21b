"""One small training for all tests here; each makes its versions of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.config import Job
from clickline.train.session import train_job
from support.processes import small_settings


@pytest.fixture(scope="package")
def checkpoint(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_job(Job.model_validate(small_settings(criteo, tmp_path_factory.mktemp("trained")))).checkpoint
