"""The OpenAPI page is true: a tool that reads it and asks whatever it allows finds no answer outside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from support.serving.predictor_worker import TOKEN, PredictorWorker
from support.versions.model_versions import TOLERANCE, ModelVersions

pytestmark = pytest.mark.heavy
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_no_answer_is_outside_the_description(
    versions: ModelVersions, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Of a worker with a real model, which asks for a token; and it still predicts rightly afterwards."""
    run = "from schemathesis.cli import schemathesis; schemathesis()"
    with PredictorWorker(tmp_path / "worker", versions.path, public=True, limits={"timeout": 30.0}) as server:
        options = ["--max-examples", "15", "--seed", "1", "--phases", "examples,coverage,fuzzing"]
        options += ["--header", f"Authorization: Bearer {TOKEN}"]
        options += ["--checks", ",".join(CHECKS), "--generation-database", "none"]
        result = subprocess.run(
            [sys.executable, "-c", run, "run", f"{server.url}/openapi.json", *options],
            cwd=tmp_path,
            env=os.environ | {"NO_COLOR": "1", "NO_PROXY": "*"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        tested = re.search(r"(\d+) (?:test cases )?generated", result.stdout)
        assert tested, result.stdout[-500:]
        record_property("hostile clients", {"described": int(tested[1])})
        found = server.predict(versions.instances[:5])
        np.testing.assert_allclose(found, versions.expected(1)[:5], rtol=0, atol=TOLERANCE)
