"""What `import clickline` offers: these names, no others, each looked up when it is first used."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import clickline
from clickline import errors
from clickline.config.job import Job
from clickline.config.loading.reader import read_job

ROOT = Path(__file__).parents[1]
NAMES = [
    "AsyncClient",
    "CheckpointError",
    "ClicklineError",
    "Client",
    "DataError",
    "Job",
    "JobError",
    "LaunchedResult",
    "LoadedJob",
    "LocalStack",
    "Model",
    "ModelError",
    "PeerError",
    "Prediction",
    "Reader",
    "RequestError",
    "RowError",
    "VersionError",
    "__version__",
    "launch_job",
    "read_job",
    "scale",
    "train_job",
    "up",
]


def test_the_names_are_frozen() -> None:
    assert dir(clickline) == NAMES


def test_names_lead_to_what_they_name() -> None:
    assert clickline.Job is Job
    assert clickline.read_job is read_job
    assert clickline.JobError is errors.JobError
    assert clickline.__version__[0].isdigit()


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'Jobb'; it has .*Job.*read_job"):
        _ = clickline.Jobb


def test_importing_clickline_loads_nothing_heavy() -> None:
    check = "import sys, clickline; sys.exit(bool({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_the_stub_has_the_same_names_from_the_same_modules() -> None:
    stub = ast.parse(Path(clickline.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imported = {
        alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    declared = {node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)}
    assert imported == clickline._EXPORTS
    assert sorted([*imported, *declared]) == NAMES


def test_the_stub_and_the_workspaces_of_paddlerec_are_in_the_wheel(tmp_path: Path) -> None:
    # Without the native core, which takes minutes to compile: what is asked here is which files are packed.
    settings = {"wheel.cmake": "false"}
    build = f"import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1], {settings})"
    subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert {"clickline/__init__.pyi", "clickline/_native.pyi", "clickline/py.typed"} <= set(names)
    workspace = "clickline/compat/paddlerec/workspaces/rank/dnn"
    assert {f"{workspace}/config.yaml", f"{workspace}/data/sample_data/train/sample_train.txt"} <= set(names)
