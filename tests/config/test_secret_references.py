"""Secrets stand in a job by reference only."""

from __future__ import annotations

import pytest

from clickline.config.secrets.secret_references import resolve
from clickline.errors import JobError


def test_references_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKLINE_TEST_A", "hunter2")
    monkeypatch.setenv("CLICKLINE_TEST_B", "${env:CLICKLINE_TEST_A}")
    assert resolve("plain $HOME {x}") == "plain $HOME {x}"
    assert resolve("a-${env:CLICKLINE_TEST_A}-${env:CLICKLINE_TEST_A}") == "a-hunter2-hunter2"
    assert resolve("${env:CLICKLINE_TEST_B}") == "${env:CLICKLINE_TEST_A}"  # a value is never looked into


def test_unset_variable_is_named_and_no_value_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKLINE_TEST_A", "hunter2")
    monkeypatch.delenv("CLICKLINE_TEST_B", raising=False)
    with pytest.raises(JobError, match=r"variable CLICKLINE_TEST_B, which is not set") as caught:
        resolve("${env:CLICKLINE_TEST_A}${env:CLICKLINE_TEST_B}")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", ["${env:}", "${env:A B}", "${env:1}"])
def test_reference_without_a_name(value: str) -> None:
    with pytest.raises(JobError, match=r"must name an environment variable"):
        resolve(value)
