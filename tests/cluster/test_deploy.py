"""The whole suite in pods: deployed, asked through its Service, given a second version, bereft of a pod, removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml

from clickline.client.client import Client
from clickline.net.request_errors import RequestError
from support.eventually import eventually
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.suite_volumes import STORAGE_CLASS, suite_volumes

pytestmark = [pytest.mark.cluster, pytest.mark.heavy]
NAMESPACE, NAME = "suite", "ctr"
_SMALL = {"cpu": "50m", "memory": "1Gi"}
VALUES: dict[str, Any] = {
    "name": NAME,
    "namespace": NAMESPACE,
    "pull_policy": "Never",
    "data": {"rows": 4000, "start": "20240101/00", "end": "20240101/00"},
    "training": {"pservers": 2, "trainers": 1, "pserver": _SMALL, "trainer": _SMALL, "publisher": _SMALL},
    "file_server": _SMALL,
    "transfer": {**_SMALL, "interval": 0.5},
    "cube": {**_SMALL, "shards": 2, "replicas": 2, "agent": _SMALL},
    "predictor": {**_SMALL, "service": "NodePort", "workers": 1},
    "storage": {"storage_class": STORAGE_CLASS},
}
KINDS = "all,pvc,cm,secrets,networkpolicies,serviceaccounts,roles,rolebindings,paddlejobs"


@pytest.fixture
def suites(node: FullCluster) -> Iterator[JobsClient]:
    if node.shared is None:
        pytest.skip("the claims of the suite are directories of this machine, and its pods run elsewhere")
    with JobsClient(node.access, NAMESPACE) as client, suite_volumes(node, client, count=6):
        client.wait(lambda: "default" in client.names("serviceaccounts"), "the account that pods run as")
        yield client


class CommandLine:
    """Verbs, as a user types them."""

    def __init__(self, node: FullCluster, directory: Path) -> None:
        self._directory = directory
        self._env = {**os.environ, "KUBECONFIG": str(node.access.kubeconfig)}

    def run(self, *words: str, check: bool = True) -> dict[str, Any]:
        command = [sys.executable, "-m", "clickline", *words, "--json"]
        ended = subprocess.run(command, env=self._env, cwd=self._directory, capture_output=True, text=True, check=False)
        assert not check or ended.returncode == 0, ended.stdout + ended.stderr
        return dict(json.loads(ended.stdout))

    def deploy(self, **data: str) -> dict[str, Any]:
        values = {**VALUES, "data": {**VALUES["data"], **data}}
        file = self._directory / "values.yaml"
        file.write_text(yaml.safe_dump(values), encoding="utf-8")
        return self.run("deploy", str(file), "--wait", "500")


class Load:
    """Asks about the same rows all the time, and keeps every answer by its version."""

    def __init__(self, url: str, token: str, rows: list[dict[str, Any]]) -> None:
        self._url, self._token, self._rows = url, token, rows
        self.answers: dict[int, set[tuple[float, ...]]] = defaultdict(set)
        self.count, self.failed = 0, list[str]()
        self._stop = Event()
        self._thread = Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        # No retries: each request that fails is one that a user would see.
        with Client(self._url, token=self._token, timeout=10.0, retries=0) as client:
            while not self._stop.wait(0.02):
                self.count += 1
                try:
                    answer = client.predict(self._rows, model=NAME)
                except (RequestError, OSError) as error:
                    self.failed.append(repr(error))
                    continue
                self.answers[answer.version].add(tuple(round(one, 6) for one in answer.probabilities))


def trained_rows(node: FullCluster, count: int) -> list[dict[str, Any]]:
    """Rows of the log that was trained, whose keys the cube has therefore."""
    assert node.shared is not None
    (log,) = node.shared.glob(f"suite-volumes/*/demo-data/criteo-{VALUES['data']['rows']}.train.tsv")
    names = [*(f"I{number}" for number in range(1, 14)), *(f"C{number}" for number in range(1, 27))]
    lines = log.read_text(encoding="utf-8").splitlines()[:count]
    rows = [dict(zip(names, line.split("\t")[1:], strict=True)) for line in lines]
    return [{key: int(value) if key.startswith("I") else value for key, value in row.items() if value} for row in rows]


def delete_and_wait(suites: JobsClient, pod: str, load: Load) -> None:
    """Delete a pod and wait until there is another of its name that is ready, and more was asked since."""
    uid = suites.kubectl("get", "pod", pod, "-o", "jsonpath={.metadata.uid}").stdout
    suites.kubectl("delete", "pod", pod, "--wait=false", "--grace-period=0", "--force")

    def is_back() -> bool:
        shown = suites.kubectl(
            "get",
            "pod",
            pod,
            "-o",
            "jsonpath={.metadata.uid} {.status.conditions[?(@.type=='Ready')].status}",
            check=False,
        ).stdout
        return not shown.startswith(uid) and shown.endswith("True")

    eventually(is_back, what=f"another {pod} that is ready", seconds=180)
    asked = load.count
    eventually(lambda: load.count > asked + 50, what="more requests")


def test_a_suite_serves_two_versions_and_loses_a_cube_pod_under_load_and_leaves_nothing(
    node: FullCluster, suites: JobsClient, tmp_path: Path
) -> None:
    cli = CommandLine(node, tmp_path)
    try:
        first = cli.deploy()
        assert first["version"] == 1
        stages = {stage["stage"] for stage in first["stages"]}
        assert {"volumes", "image", "training", "publishing", "delivering", "first prediction"} <= stages
        print("first prediction:", json.dumps(first))
        health = cli.run("status", "--deployed", f"{NAMESPACE}/{NAME}", check=False)
        assert health["version"] == 1, health

        config = cli.run("client-config", "--deployed", f"{NAMESPACE}/{NAME}", "--out", "client")
        secret = suites.get("secrets", f"{NAME}-token")
        assert secret is not None
        token = suites.kubectl(
            "get", "secret", f"{NAME}-token", "-o", "go-template={{.data.token | base64decode}}"
        ).stdout
        rows = trained_rows(node, 8)
        with Client(config["url"], token=token) as client:
            known = client.predict(rows, model=NAME).probabilities
            unknown = [{key: "never" if key.startswith("C") else value for key, value in row.items()} for row in rows]
            # Else rows of another version in the cube could not be noticed by the answers below.
            assert all(
                abs(a - b) > 1e-4 for a, b in zip(known, client.predict(unknown, model=NAME).probabilities, strict=True)
            )
        with Load(config["url"], token, rows) as load:
            eventually(lambda: load.answers.get(1), what="an answer of the first version")
            second = cli.deploy(end="20240101/01")
            assert second["version"] == 2
            # The second hour began with the weights of the first one.
            log = suites.kubectl("logs", "-l", "clickline.dev/part=training", "--tail=-1").stdout
            assert f"starting with the weights of /store/runs/{NAME}-2024010100" in log
            eventually(lambda: load.answers.get(2), what="an answer of the second version", seconds=120)
            delete_and_wait(suites, f"{NAME}-cube-0-0", load)
            cli.run("scale", "--deployed", f"{NAMESPACE}/{NAME}", "--predictors", "2")
            ready = ("rollout", "status", f"deployment/{NAME}-predictor", "--timeout=180s")
            assert suites.kubectl(*ready, check=False).returncode == 0
        print(f"under load: {load.count} asked, {len(load.failed)} failed, versions {sorted(load.answers)}")
        assert load.failed == []
        # Rows of one version with the network of another would give a third answer to the same question.
        assert {version: len(answers) for version, answers in load.answers.items()} == {1: 1, 2: 1}
    except BaseException:
        for words in (("get", "pods,pvc,jobs,pdj", "-o", "wide"), ("get", "events")):
            print(suites.kubectl(*words, check=False).stdout[-6000:])
        for part in ("training", "transfer", "predictor", "client", "cube"):
            words = ("logs", "-l", f"clickline.dev/part={part}", "--all-containers", "--tail=25", "--prefix")
            print(suites.kubectl(*words, check=False).stdout[-5000:])
        raise
    finally:
        removed = cli.run("undeploy", f"{NAMESPACE}/{NAME}")
    assert len(removed["removed"]) > 20
    left = suites.kubectl("get", KINDS, "-l", f"clickline.dev/suite={NAME}", "-o", "name").stdout
    assert left == ""
    assert suites.kubectl("get", "pods,paddlejobs", "-o", "name").stdout == ""
