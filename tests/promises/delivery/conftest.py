"""One cube of two shards with two replicas each for all tests here that leave it as they found it: whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cubes.cube_processes import CubeProcesses, two_by_two


@pytest.fixture(scope="package")
def cube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CubeProcesses]:
    with two_by_two(tmp_path_factory.mktemp("promises"), wait=0.3) as found:
        yield found
