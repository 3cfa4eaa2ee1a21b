"""The OpenAPI page is true: a tool that reads it and asks whatever it allows finds no answer outside it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from serving_doubles import serving

pytestmark = pytest.mark.heavy
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)


def test_no_answer_is_outside_the_description(tmp_path: Path) -> None:
    run = "from schemathesis.cli import schemathesis; schemathesis()"
    with serving(tmp_path) as server:
        options = ["--max-examples", "15", "--seed", "1", "--phases", "examples,coverage,fuzzing"]
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
        print(tested[0] if tested else result.stdout[-500:])
