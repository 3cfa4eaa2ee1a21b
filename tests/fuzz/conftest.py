"""What the fuzzers did, at the end of a run; and services that live for all tests of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.fuzz.asgi_requests import RUNNER
from support.fuzz.budget import TALLIES
from support.fuzz.services import services


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[bytes], bool]]]:
    with services(tmp_path_factory.mktemp("services")) as made:
        yield made


def pytest_sessionfinish() -> None:
    RUNNER.close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for name, tally in sorted(TALLIES.items()):
        inputs = tally.accepted + tally.refused
        terminalreporter.write_line(
            f"fuzz {name}: {inputs} inputs, {tally.accepted} accepted, {tally.refused} refused, "
            f"{tally.seconds:.1f} s, peak memory {tally.peak} MiB"
        )
