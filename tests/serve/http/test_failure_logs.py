"""Failures in the log: where they happened, and nothing of a client's that could be taken for a line of ours."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from support.doubles.serving_doubles import BODY, serving


def test_what_a_client_sent_is_escaped_where_a_failure_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug whose message holds a client's text must not write lines of its own, nor to a terminal."""
    forged = "x\n2026-01-02T03:04:05.678 INFO serve.0 all is well \x1b[2J \x9b1m \r gone"

    def fail(*_: object, **__: object) -> None:
        try:
            raise KeyError(forged)
        except KeyError as error:
            raise ValueError(forged) from error

    with serving(tmp_path) as server:
        server.predictor.submit = fail  # type: ignore[method-assign]
        answer = httpx.post(f"{server.url}/predict", content=BODY, trust_env=False, timeout=20)
        assert (answer.status_code, answer.json()["reason"]) == (500, "internal")
    assert r"ValueError: x\n2026-01-02T03:04:05.678 INFO serve.0 all is well \x1b[2J \x9b1m \r gone" in caplog.text
    assert "KeyError" in caplog.text
    assert "in fail" in caplog.text  # where it happened
    assert not any(line.startswith("2026-01-02") for line in caplog.text.splitlines())
    assert "\x1b" not in caplog.text
