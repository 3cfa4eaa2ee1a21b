"""deploy/examples as they are, on fewer rows and with what two cores can do; and the same jobs on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.kubernetes.full_cluster import FullCluster
from support.processes import run, write_job

_EXAMPLES = Path(__file__).parents[4] / "deploy" / "examples"
PLAIN = _EXAMPLES / "plain"
ROWS, TEST_ROWS = 6000, 1200
_DATA = ["--rows", str(ROWS), "--ids", "30000"]
# Small, and with one outcome: `sync` gives the same bits every time, as long as the threads are as many.
_SMALLER: dict[str, Any] = {
    "seed": 5,
    "threads": 1,
    "train": {"batch_size": 50, "epochs": 1},
    "checkpoint": {"every_steps": 20},
}


class ShippedExample:
    """A file of deploy/examples with a ConfigMap and a PaddleJob in it."""

    def __init__(self, name: str, cluster: FullCluster, **changes: Any) -> None:
        """`changes` are of the job in the ConfigMap."""
        texts = cluster.with_image((_EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
        self.settings_map, self.job = yaml.safe_load_all(texts)
        self.name: str = self.job["metadata"]["name"]
        self.settings_map["data"]["job.yaml"] = smaller(self.settings_map["data"]["job.yaml"], **changes)
        self.settings: dict[str, Any] = yaml.safe_load(self.settings_map["data"]["job.yaml"])
        for role in ("ps", "worker"):
            if role in self.job["spec"]:
                make_smaller(self.job["spec"][role]["template"]["spec"])

    def add_variables(self, variables: list[dict[str, Any]]) -> None:
        """More of the environment of every pod."""
        for role in ("ps", "worker"):
            self.job["spec"][role]["template"]["spec"]["containers"][0]["env"] += variables

    def apply_with(self, kubectl: Any) -> None:
        kubectl("apply", "-f", "-", given=yaml.safe_dump_all([self.settings_map, self.job]))

    def result_here(self, directory: Path) -> dict[str, Any]:
        """What the same job comes to as processes of this machine."""
        made = run("data", "criteo", *_DATA, "--out", directory / "data" / "criteo.tsv")
        assert made.returncode == 0, made.stderr
        spec = self.job["spec"]
        roles = {"pservers": "ps", "trainers": "worker"}
        numbers = {ours: spec[role]["replicas"] for ours, role in roles.items() if role in spec}
        data = {key: value.replace("/data/", f"{directory}/data/") for key, value in self.settings["data"].items()}
        settings = {**self.settings, "data": data, "output": str(directory / "runs"), "cluster": numbers}
        trained = run("train", write_job(directory / "job.yaml", settings), "--json")
        assert trained.returncode == 0, trained.stderr
        return result_in(directory / "runs" / self.settings["name"])


def result_in(directory: Path) -> dict[str, Any]:
    """result.json of a run."""
    return dict(json.loads((directory / "result.json").read_text(encoding="utf-8")))


def assert_same(result: dict[str, Any], here: dict[str, Any], *, bits: bool) -> None:
    """A run in pods came to what the same job came to on this machine; `bits`: exactly, as on the same processor."""
    for one in (result, here):
        assert (one["rows"], one.get("lost_pushes", 0)) == (ROWS - TEST_ROWS, 0), one
        assert one["test"]["rows"] == TEST_ROWS, one
    assert result["steps"] == here["steps"]
    for figure in ("auc", "logloss"):
        wanted = here["test"][figure]
        assert result["test"][figure] == (wanted if bits else pytest.approx(wanted, abs=1e-3)), (result, here)


def smaller(job: str, **changes: Any) -> str:
    """The text of a job file, for few rows."""
    return yaml.safe_dump({**yaml.safe_load(job), **_SMALLER, **changes})


def make_smaller(pod: dict[str, Any]) -> None:
    """A pod of an example, for few rows."""
    for container in pod["initContainers"]:
        command = container["command"]
        at = command.index("--rows")
        container["command"] = [*command[:at], *_DATA, *command[at + 2 :]]
    for container in pod["containers"]:
        container["resources"]["requests"]["cpu"] = "100m"  # four halves of two cores leave none to the operator
        container.setdefault("env", []).append({"name": "OMP_NUM_THREADS", "value": "1"})
