"""A model without a version: the log says once which one is waited for, and where."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from clickline.serve.predictor.served_model import ServedModel
from clickline.versions.store import open_store
from support.versions.known_versions import Known


def test_a_model_without_a_version_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = open_store(str(tmp_path / "no-such-store"))
    served = ServedModel("deep", store, interval=3600)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not served.refresh()
    said = [one.getMessage() for one in caplog.records if "deep" in one.getMessage()]
    assert said == [f"model 'deep': no version yet in {store.url}; waiting"]


def test_a_model_with_a_version_is_not_waited_for(known: Known, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert ServedModel("ctr", known.store, interval=3600).refresh()
    assert "waiting" not in caplog.text


def test_a_store_that_is_away_for_long_is_still_polled(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pause after a failure doubles up to a limit; the number of failures has none."""
    served = ServedModel("ctr", known.store, interval=3600)
    with monkeypatch.context() as away:
        away.setattr(served._wanted, "donefile", _not_there)
        for _ in range(1100):
            assert not served.refresh()
    assert served.refresh()


def _not_there() -> None:
    raise OSError("not there")
