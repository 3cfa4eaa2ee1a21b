"""Tests that take `kind` run for every kind of synthetic log."""

from __future__ import annotations

import pytest

from support.data.log_kinds import KINDS, Kind


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]
