"""What `clickline train --on kubernetes` makes: objects that Kubernetes knows, with every key of the job in them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.errors import JobError
from clickline.launch.kubernetes.cluster_access import find_cluster
from clickline.launch.kubernetes.cluster_checks import check_beginning, check_job
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.job_manifests import JobManifests, job_manifests, resource_name
from clickline.launch.launchers import LaunchOptions
from clickline.progress import LogOnly
from support.key_effects.probes import GIVEN, VALUES
from support.kubernetes.api_server import TestCluster

KEYS = [key for key in VALUES if key.startswith("cluster.kubernetes.")]
CURRENT = "1.37"


def settings(**changes: Any) -> dict[str, Any]:
    cluster = {"pservers": 2, "trainers": 3, "kubernetes": {}, **changes.pop("cluster", {})}
    cluster["kubernetes"] = {"image": "example.com/clickline:1", **cluster["kubernetes"]}
    return {"name": "ctr", "data": {"train": ["/data/train.tsv"]}, "cluster": cluster, "output": "/data/runs"} | changes


def made(values: dict[str, Any], workspace: Path = Path(), name: str = "JOB20260131120000-1a2b") -> JobManifests:
    return job_manifests(Job.model_validate(values), workspace=workspace, name=name, namespace="training")


def with_values(values: dict[str, Any]) -> dict[str, Any]:
    """A job with keys such as cluster.kubernetes.volumes[].claim."""
    job: dict[str, Any] = settings()
    for key, value in values.items():
        part: Any = job
        *path, last = key.replace("[]", ".0").split(".")
        for word in path:
            part = part[int(word)] if word.isdigit() else part.setdefault(word, {})
        part[last] = json.loads(json.dumps(value))
    return job


@pytest.mark.parametrize("key", KEYS)
def test_every_key_changes_what_is_made(key: str) -> None:
    given = GIVEN.get(key, {})
    before, after = made(with_values(given)), made(with_values({**given, key: VALUES[key]}))
    if key == "cluster.kubernetes.namespace":  # whoever calls says it
        assert Job.model_validate(with_values({key: VALUES[key]})).cluster.kubernetes.namespace == VALUES[key]
        return
    assert before.paddle_job != after.paddle_job


EVERYTHING = {key: VALUES[key] for key in KEYS if "[" not in key and key not in ("cluster.kubernetes.queue",)}


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"strategy": "collective", "cluster.pservers": 0}])
def test_kubernetes_accepts_what_is_made_and_knows_every_field(cluster: TestCluster, values: dict[str, Any]) -> None:
    manifests = made(with_values(values))
    for part in ("ps", "worker"):
        if part in manifests.paddle_job["spec"]:
            template = manifests.paddle_job["spec"][part]["template"]
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]}
            kubernetes_validate.validate(pod, CURRENT, strict=True)
    kubernetes_validate.validate(manifests.files, CURRENT, strict=True)
    with ClusterClient(find_cluster({"KUBECONFIG": str(cluster.kubeconfig)})) as client:
        for body in manifests.documents():
            in_default = {**body, "metadata": {**body["metadata"], "namespace": "default"}}
            assert client.create(in_default, dry_run=True)["kind"] == body["kind"]


def test_servers_and_trainers_are_roles_of_the_job() -> None:
    spec = made(settings()).paddle_job["spec"]
    assert (spec["ps"]["replicas"], spec["worker"]["replicas"]) == (2, 3)
    arguments = [spec[part]["template"]["spec"]["containers"][0]["args"] for part in ("ps", "worker")]
    assert arguments == [["pserver", "/job/job.yaml"], ["trainer", "/job/job.yaml"]]
    alone = made(settings(strategy="collective", cluster={"pservers": 0})).paddle_job["spec"]
    assert "ps" not in alone
    assert alone["worker"]["template"]["spec"]["containers"][0]["args"] == ["train", "/job/job.yaml"]


def test_a_run_that_is_in_no_volume_is_said_to_end_with_its_pod() -> None:
    private = made(settings(output="runs"))
    assert not private.shared
    assert private.run_directory == "/runs/ctr"
    assert "the run will be in /runs of the pod of server 0 alone" in private.notices[0]
    volumes = {"kubernetes": {"volumes": [{"claim": "data", "path": "/data"}]}}
    shared = made(settings(cluster=volumes))
    assert (shared.shared, list(shared.notices)) == (True, [])
    assert made(settings(output="s3://bucket/runs")).shared
    read_only = {"kubernetes": {"volumes": [{"claim": "data", "path": "/data", "read_only": True}]}}
    assert not made(settings(cluster=read_only)).shared


def test_code_that_the_job_names_goes_along_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("class Net: ...\n")
    (tmp_path / "data.bin").write_bytes(b"\0" * 2_000_000)
    manifests = made(settings(model={"name": "models/net.py:Net"}), tmp_path)
    assert list(manifests.files["data"].values())[1:] == ["class Net: ...\n"]
    (job, *_) = manifests.paddle_job["spec"]["ps"]["template"]["spec"]["volumes"]
    assert job["configMap"]["items"][1]["path"] == "models/net.py"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("large.py:Net", r"have 1\.0 MB, and a ConfigMap takes 0\.9: put the code into the image"),
        ("/elsewhere/net.py:Net", "is not below the workspace"),
        ("../net.py:Net", "is not below the workspace"),
        ("missing.py:Net", r"missing\.py: cannot be read"),
    ],
)
def test_code_that_cannot_go_along_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "large.py").write_text("#" * 1_000_000)
    with pytest.raises(JobError, match=message):
        made(settings(model={"name": name}), tmp_path)


def test_what_kubernetes_cannot_do_is_refused_all_at_once() -> None:
    cluster = {"hosts": [{"host": "a"}], "kubernetes": {"image": ""}}
    job = settings(cluster=cluster, data={"train": ["train.tsv"], "placement": "node"})
    with pytest.raises(JobError) as caught:
        check_job(Job.model_validate(job))
    for words in (
        "cluster.kubernetes.image is not set, and pods need an image that has Clickline: `clickline image`",
        "cluster.hosts is for --on ssh",
        "data.placement: node needs hosts",
        "'train.tsv' is a path from",
    ):
        assert words in str(caught.value)


def launch_options(**given: Any) -> LaunchOptions:
    return LaunchOptions(workspace=Path(), watcher=LogOnly(), **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resume": True}, "--resume: output is 'runs', in no volume and at no URL"),
        ({"resume": "/home/me/run"}, "--resume-from: '/home/me/run' is a path that pods do not have: expected a URL"),
        ({"warm_start": "runs/ctr"}, "--warm-start: 'runs/ctr' is a path that pods do not have"),
        ({"warm_start": "s3://me:pw@bucket/run"}, "--warm-start: the address holds a password; set it in a Secret"),
    ],
)
def test_a_beginning_that_pods_cannot_have_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError, match=re.escape(message)) as caught:
        check_beginning(Job.model_validate(settings(output="runs")), launch_options(**given))
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [{"resume": True}, {"resume": "/data/runs/ctr"}, {"warm_start": "s3://bucket/run"}, {"fresh": True}],
)
def test_server_0_is_told_how_the_run_begins(given: dict[str, Any]) -> None:
    volumes = {"kubernetes": {"volumes": [{"claim": "data", "path": "/data"}]}}
    job, options = Job.model_validate(settings(cluster=volumes)), launch_options(**given)
    check_beginning(job, options)
    manifests = job_manifests(
        job, workspace=Path(), name="JOB20260131120000-1a2b", namespace="n", arguments=options.beginning
    )
    (server,) = manifests.paddle_job["spec"]["ps"]["template"]["spec"]["containers"]
    assert server["args"] == ["pserver", "/job/job.yaml", *options.beginning]
    assert {"name": "CLICKLINE_LAUNCH", "value": "JOB20260131120000-1a2b"} in server["env"]
    (trainer,) = manifests.paddle_job["spec"]["worker"]["template"]["spec"]["containers"]
    assert trainer["args"] == ["trainer", "/job/job.yaml"]


@pytest.mark.parametrize(
    ("run", "name"),
    [("CTR Model_1", "ctr-model-1-1a2b"), ("2026", "run-2026-1a2b"), ("_", "run-1a2b"), ("a" * 99, f"{'a' * 35}-1a2b")],
)
def test_every_name_of_a_run_gives_a_name_that_kubernetes_takes(run: str, name: str) -> None:
    assert resource_name(run, "JOB20260131120000-1a2b") == name


def test_a_dry_run_prints_the_objects_and_needs_no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(settings(data={"format": "criteo", "train": ["/data/train.tsv"]})))
    ended = CliRunner().invoke(app, ["train", str(file), "--on", "kubernetes", "--dry-run"])
    assert ended.exit_code == 0, ended.output
    files, job = yaml.safe_load_all(ended.stdout)
    assert (files["kind"], job["kind"], job["metadata"]["namespace"]) == ("ConfigMap", "PaddleJob", "default")
    assert "it must be in the image of the pods" in ended.stderr
    refused = CliRunner().invoke(app, ["train", str(file), "--on", "ssh", "--dry-run"])
    assert "--dry-run is for --on kubernetes" in refused.stderr
