"""How long parsers are fed with nonsense: a moment in CI, as long as you like with CLICKLINE_FUZZ_EXAMPLES=1000000."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, seed, settings

EXAMPLES = int(os.environ.get("CLICKLINE_FUZZ_EXAMPLES", "40"))


def budgeted(test: Callable[..., Any]) -> Callable[..., Any]:
    """The same examples each time; more of them on demand."""
    allowed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    limited = settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=allowed)
    return seed(20261116)(limited(test))
