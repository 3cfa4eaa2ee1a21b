"""Runs that end with their test, data that is large enough for an AUC, and what it all came to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.clusters import Parts, Run, Watched
from support.made_once import made_once


@pytest.fixture
def launch(request: pytest.FixtureRequest) -> Iterator[Callable[..., Run]]:
    """Start a whole run."""
    yield from _kept(request, Run)


@pytest.fixture
def assemble(request: pytest.FixtureRequest) -> Iterator[Callable[..., Parts]]:
    """Prepare a run whose processes are started one by one."""
    yield from _kept(request, Parts)


def _kept(request: pytest.FixtureRequest, kind: type[Any]) -> Iterator[Callable[..., Any]]:
    """Runs that are closed when their test is over, and noted for the summary at the end."""
    runs: list[Watched] = []

    def make(settings: dict[str, Any], *arguments: str, **options: Any) -> Watched:
        runs.append(kind(settings, *arguments, **options))
        return runs[-1]

    yield make
    for run in runs:
        run.close()
        request.node.user_properties.append(("cluster run", run.summary()))


@pytest.fixture(scope="session")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """More rows than `criteo` has: AUC on its test rows is stable enough to compare."""
    from clickline.data.synthetic import write_criteo

    def write(directory: Path) -> None:
        write_criteo(directory / "data.tsv", rows=42_000, seed=3, ids=25_000, test_rows=12_000)

    directory = made_once(tmp_path_factory, "clicks", write)
    return {"train": str(directory / "data.train.tsv"), "test": str(directory / "data.test.tsv")}
