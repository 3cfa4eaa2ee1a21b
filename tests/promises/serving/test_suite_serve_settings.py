"""A suite whose predictor has a serve.yaml: its own model and another, split and shadowed."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from support.eventually import eventually
from support.suites.running_suite import RunningSuite
from support.versions.model_versions import ModelVersions

pytestmark = pytest.mark.heavy


def test_a_suite_serves_its_model_beside_others(checkpoint: Path, tmp_path: Path) -> None:
    versions = ModelVersions(tmp_path / "state" / "versions", checkpoint, seed=3)
    shutil.copytree(versions.path, tmp_path / "other")
    settings = tmp_path / "serve.yaml"
    settings.write_text(
        f"""models:
  next: {{store: {tmp_path / "other"}}}
  ctr: {{cube: {{row_cache: 1000000}}}}
splits:
  main: {{variants: [{{model: ctr, tag: a}}, {{model: next, tag: b}}]}}
shadows:
  ctr: {{model: next}}
default: main
"""
    )
    with RunningSuite(tmp_path / "state", serve=settings) as suite, httpx.Client(trust_env=False, timeout=30) as client:
        body = {"instances": versions.instances[:4]}
        wanted = versions.expected(1)[:4].tolist()
        seen = set()

        def both() -> bool:
            answer = client.post(f"{suite.suite.http}/predict", json=body).json()
            assert answer["predictions"] == pytest.approx(wanted, abs=1e-5)
            seen.add((answer["model"], answer["variant"]))
            return seen == {("ctr", "a"), ("next", "b")}

        eventually(both)

        def compared() -> bool:
            page = client.get(f"{suite.suite.http}/metrics").text
            return 'clickline_shadow_difference_count{model="ctr",shadow="next",label="label"}' in page

        eventually(compared)
        page = client.get(f"{suite.suite.http}/metrics").text
        assert 'clickline_requests_total{protocol="plain",model="next",variant="b"}' in page
        assert 'clickline_predicted_probability_count{model="ctr",variant="a",label="label"}' in page
        assert 'clickline_row_cache_total{model="ctr",result="miss"}' in page
