"""A predictor without the one thing that keeps a prediction together: it reads a cube without naming the version.

Tests show with it that their checks find what then goes wrong. As a program it is `clickline serve` of that kind:

    python unpinned_predictor.py serve …                                 in place of `clickline serve …`
    python unpinned_predictor.py worker DIRECTORY RANK DESCRIPTOR        one of its workers
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clickline.cube.cube_client import Cube, CubeAnswer
from clickline.serve.predictor.model_version import ModelVersion

COMMAND = (sys.executable, __file__)
_from_cube = ModelVersion.from_cube


class UnpinnedCube:
    """A cube whose readers get whatever is current on each shard, whichever version they name."""

    reads = 0

    def __init__(self, cube: Cube) -> None:
        self._cube = cube

    def get(self, table: str, keys: NDArray[np.uint64], *, version: int | None = None) -> CubeAnswer:
        UnpinnedCube.reads += 1
        return self._cube.get(table, keys)


def from_cube_unpinned(*args: Any, cube: Cube, **options: Any) -> ModelVersion:
    """As ModelVersion.from_cube. The version is checked with its own rows, and only its requests are not."""
    version = _from_cube(*args, cube=cube, **options)
    rows: Any = version._source
    rows._cube, rows._caches = UnpinnedCube(cube), {}
    return version


def main(arguments: list[str]) -> None:
    from clickline import cli
    from clickline.launch import predictor_processes

    ModelVersion.from_cube = from_cube_unpinned  # type: ignore[method-assign,assignment]
    if arguments[0] == "worker":
        predictor_processes.worker_main(arguments[1:])
        return
    defaults = predictor_processes.serve.__kwdefaults__
    defaults["worker"] = (*COMMAND, "worker")
    sys.argv = ["clickline", *arguments]
    cli.main()


if __name__ == "__main__":
    main(sys.argv[1:])
