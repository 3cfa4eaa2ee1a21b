"""A predictor in little, as over a network."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from predictor_double import PredictorDouble


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Iterator[PredictorDouble]:
    monkeypatch.delenv("CLICKLINE_TOKEN", raising=False)
    server = PredictorDouble()
    yield server
    server.stop()
