"""The OpenAPI page is true: a tool that reads it and asks whatever it allows finds no answer outside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving_doubles import serving

schemathesis = pytest.importorskip("schemathesis")
pytestmark = pytest.mark.heavy


def test_no_answer_is_outside_the_description(tmp_path: Path) -> None:
    raise NotImplementedError
