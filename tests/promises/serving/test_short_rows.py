"""Rows of 16 and of 8 bits give the predictions of their own version, read from its files or through a cube."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from clickline.publish.publisher import Settings, publish
from clickline.versions.manifest import Dtype
from clickline.versions.store import open_store
from support.cubes.cube_processes import CubeProcesses
from support.eventually import eventually
from support.serving.predictor_processes import PredictorProcess
from support.serving.predictor_worker import predictor_in_thread
from support.versions.model_versions import ROWS, TOLERANCE, ModelVersions

pytestmark = pytest.mark.heavy
DTYPES: dict[Dtype, float] = {"fp16": 1e-3, "u8": 0.05}
"""How far predictions may be from those of 32 bits; that they differ at all shows that short rows were read."""


def asked(client: httpx.Client, versions: ModelVersions) -> tuple[int, NDArray[np.float64]]:
    answer = client.post("/predict", json={"instances": versions.instances}, timeout=60).json()
    return answer["version"], np.array(answer["predictions"])


def test_short_rows_are_served_from_files_and_from_a_cube(
    checkpoint: Path, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    versions = ModelVersions(tmp_path / "store", checkpoint)
    cube = CubeProcesses(tmp_path / "processes", versions, shards=2, copies=1, wait=0.3)  # type: ignore[arg-type]
    try:
        cube.start_all()
        cube.await_all(1)
        predictor = PredictorProcess(cube.directory, cube, workers=1)
        try:
            with (
                predictor_in_thread(tmp_path, versions.path) as files,
                httpx.Client(base_url=files, trust_env=False) as from_files,
                httpx.Client(base_url=predictor.url, trust_env=False) as from_cube,
            ):
                for version, (dtype, off) in enumerate(DTYPES.items(), 2):
                    publish(checkpoint, open_store(versions.path), Settings(kind="base", dtype=dtype, max_auc_drop=1.0))
                    cube.await_all(version)
                    for client in (from_files, from_cube):
                        eventually(lambda: asked(client, versions)[0] == version, what=f"{dtype} rows served")  # noqa: B023
                        found = asked(client, versions)[1]
                        np.testing.assert_allclose(found, versions.expected(version), rtol=0, atol=TOLERANCE)
                        assert 0 < np.abs(found - versions.expected(1)).max() < off
        finally:
            predictor.close()
    finally:
        cube.close()
    count = len(DTYPES) * 2 * ROWS
    line = f"rows of 16 and 8 bits from files and from a cube: {count} predictions as their version has them"
    record_property("serving counts", line)
