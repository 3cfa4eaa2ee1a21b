"""`clickline train --on kubernetes`: a job from the command line to its end in a cluster, whichever end it has.

The API server and the operator are real; pods are processes of this machine, or stay pending.
"""

from __future__ import annotations

import json
import secrets
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.errors import JobError, PeerError
from clickline.launch.kubernetes import cluster_client
from clickline.launch.kubernetes.cluster_access import find_cluster
from clickline.launch.kubernetes.cluster_checks import check_cluster
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.given_manifests import given_manifests
from clickline.launch.kubernetes.job_manifests import JOB_LABEL, job_manifests
from clickline.ps.coordinator.state.record import read_record
from support.clusters import settings_for
from support.eventually import eventually
from support.kubernetes.api_server import TestCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.log_server import log_server
from support.kubernetes.plain_pods import PlainPods
from support.kubernetes.process_kubelet import ProcessKubelet
from support.processes import ENVIRONMENT, run, start, write_job

IMAGE = "registry.example.com/clickline:1"


class Launch:
    """The command line, with records of its own."""

    def __init__(self, jobs: JobsClient, cluster: TestCluster, directory: Path) -> None:
        self.jobs, self.directory = jobs, directory
        self.env = {**ENVIRONMENT, "KUBECONFIG": str(cluster.kubeconfig), "CLICKLINE_STATE": str(directory / "jobs")}
        self.name = f"run-{secrets.token_hex(3)}"
        self.process: subprocess.Popen[str] | None = None

    def train(self, settings: dict[str, Any], *options: str) -> subprocess.Popen[str]:
        settings["name"] = self.name
        settings["cluster"]["kubernetes"] = {"namespace": self.jobs.namespace, "image": IMAGE}
        file = write_job(self.directory / "job.yaml", settings)
        self.process = start("train", file, "--on", "kubernetes", "--json", *options, env=self.env)
        return self.process

    def paddle_job(self, *, but: str = "") -> str:
        """Its name, once it is there; `but` is that of an earlier start."""

        def found() -> str | None:
            names = [name for name in self.jobs.names("paddlejobs") if name.startswith(self.name)]
            return next((name for name in names if name != but), None)

        return str(eventually(found, what="the PaddleJob", process=self.process))

    def left(self) -> list[str]:
        """Objects of this run that are still there."""
        return [
            name
            for resource in ("paddlejobs", "configmaps", "pods")
            for name in self.jobs.names(resource)
            if name.startswith(self.name) and (resource != "configmaps" or name.endswith("-files"))
        ]

    def record(self) -> dict[str, Any]:
        (record,) = json.loads(run("jobs", "--json", env=self.env).stdout)
        return dict(record)


@pytest.fixture
def launch(launched: JobsClient, cluster: TestCluster, tmp_path: Path) -> Iterator[Launch]:
    made = Launch(launched, cluster, tmp_path)
    yield made
    if made.process is not None:
        made.process.kill()
        made.process.communicate()
    for name in launched.names("paddlejobs"):
        if name.startswith(made.name):
            launched.delete("paddlejobs", name)


def small(criteo: dict[str, str], directory: Path, **changes: Any) -> dict[str, Any]:
    return settings_for(criteo, directory, "kubernetes", checkpoint={"every_steps": 40}, **changes)


@pytest.mark.heavy
def test_a_job_trains_to_the_end_and_its_result_and_logs_are_told(
    launch: Launch, criteo: dict[str, str], tmp_path: Path
) -> None:
    process = launch.train(small(criteo, tmp_path))
    name = launch.paddle_job()
    kubelet = ProcessKubelet(launch.jobs, name, tmp_path)
    with log_server(tmp_path) as port:
        kubelet.node = launch.jobs.make_node(f"node-{port}", port)
        try:
            eventually(lambda: process.poll() is not None, what="the end of the launcher", doing=kubelet.step)
        finally:
            kubelet.stop()
        out, err = process.communicate()
        assert process.returncode == 0, f"{out}\n{err}\n{kubelet.logs()}"
        result = json.loads(out)
        assert (result["rows"], result["lost_pushes"]) == (4500, 0)
        assert result["test"]["auc"] > 0.55
        assert result["host"] == f"{name}-ps-0"
        record = launch.record()
        assert (record["phase"], record["launcher"]) == ("finished", "kubernetes")
        lines = Path(record["log"]).read_text().splitlines()
        (pod_log,) = tmp_path.glob(f"{name}-worker-1-*.log")
        own = [line.partition(": ")[2] for line in lines if line.startswith(f"{name}-worker-1 trainer.1: ")]
        assert own == pod_log.read_text().splitlines(), "each line once, in its order"
        status = json.loads(run("status", record["job"], "--json", env=launch.env).stdout)
        assert (status["phase"], status["well"]) == ("finished", True)
        shown = run("logs", record["job"], "pserver.0", env=launch.env).stdout
        assert f"{name}-ps-0 pserver.0: " in shown
        assert "trainer.0:" not in shown


def trained(launch: Launch, name: str, directory: Path, *, kill: str = "") -> dict[str, Any]:
    """The result of a launch whose pods run in a directory. `kill`: a pod whose process is killed at a checkpoint."""
    process = launch.process
    assert process is not None
    directory.mkdir()
    kubelet = ProcessKubelet(launch.jobs, name, directory)
    start = (launch.jobs.get("paddlejobs", name) or {})["metadata"]["labels"][JOB_LABEL]
    killed: list[str] = []

    def step() -> None:
        kubelet.step()
        if not kill or killed:
            return
        record = read_record(launch.directory / "runs" / launch.name)
        if record is not None and record.launch == start and record.checkpoint:
            uid = launch.jobs.pods(name)[f"{name}-{kill}"]["metadata"]["uid"]
            kubelet.processes[uid].kill()
            killed.append(uid)

    try:
        eventually(lambda: process.poll() is not None, what="the end of the launcher", doing=step)
    finally:
        kubelet.stop()
    out, err = process.communicate()
    assert process.returncode == 0, f"{out}\n{err}\n{kubelet.logs()}"
    assert bool(killed) == bool(kill)
    return dict(json.loads(out))


@pytest.mark.heavy
def test_a_run_is_started_over_once_also_if_its_first_server_is_replaced(
    launch: Launch, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = small(criteo, tmp_path)
    settings["cluster"] |= {"trainers": 1, "pservers": 1}
    launch.train(settings)
    first = launch.paddle_job()
    result = trained(launch, first, tmp_path / "first")
    launch.train(settings, "--fresh")
    second = launch.paddle_job(but=first)
    # The second pod of server 0 has --fresh among its arguments too.
    again = trained(launch, second, tmp_path / "second", kill="ps-0")
    assert again["rows"] >= result["rows"] == 4500
    logs = [file.read_text() for file in (tmp_path / "second").glob(f"{second}-ps-0-*.log")]
    assert len(logs) == 2
    assert [("taking up the run where the coordinator before stood" in log) for log in logs].count(True) == 1


@pytest.mark.heavy
def test_a_job_that_fails_tells_the_pod_and_its_reason(launch: Launch, criteo: dict[str, str], tmp_path: Path) -> None:
    settings = small({"train": "/nowhere/train.tsv", "test": criteo["test"]}, tmp_path)
    settings["cluster"] |= {"restarts": 0, "trainers": 1, "pservers": 1}
    process = launch.train(settings)
    kubelet = ProcessKubelet(launch.jobs, launch.paddle_job(), tmp_path)
    try:
        eventually(lambda: process.poll() is not None, what="the end of the launcher", doing=kubelet.step)
    finally:
        kubelet.stop()
    out, _ = process.communicate()
    assert process.returncode == 1
    message = json.loads(out)["error"]["message"]
    # Server and trainer both miss the data; which of them ends first is a matter of chance, and the status knows it.
    first = launch.jobs.status(launch.paddle_job())["firstFailure"]["pod"]
    assert first.removeprefix(launch.paddle_job()) in ("-ps-0", "-worker-0")
    assert f"failed, exit code 4: {first} failed first, Error" in message
    assert message.count(first) == 1, message
    assert launch.record()["phase"] == "failed"


def test_an_interrupt_leaves_nothing(launch: Launch, criteo: dict[str, str], tmp_path: Path) -> None:
    process = launch.train(small(criteo, tmp_path))
    name = launch.paddle_job()
    launch.jobs.until_pods(name, "ps-0", "ps-1", "worker-0", "worker-1")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=100)
    assert process.returncode == 130, f"{out}\n{err}"
    assert launch.left() == []
    assert launch.record()["phase"] == "stopped"


def test_a_job_whose_image_is_not_there_is_given_up_and_deleted(
    launch: Launch, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = small(criteo, tmp_path)
    settings["cluster"] |= {"start_timeout": 1, "trainers": 1, "pservers": 1}
    process = launch.train(settings)
    name = launch.paddle_job()
    launch.jobs.until_pods(name, "ps-0", "worker-0")
    launch.jobs.block_pod(name, "ps-0", reason="Unschedulable", message="0/1 nodes are available")
    launch.jobs.block_pod(name, "worker-0", reason="ImagePullBackOff", message=f"Back-off pulling image {IMAGE}")
    out, err = process.communicate(timeout=100)
    assert process.returncode == 7, f"{out}\n{err}"
    message = json.loads(out)["error"]["message"]
    assert f"{name} has not started within 1 s (cluster.start_timeout): {name}-worker-0 does not start" in message
    assert f"the image {IMAGE!r} cannot be pulled" in message
    assert message.endswith("; the job was stopped")
    assert launch.left() == []
    assert launch.record()["phase"] == "failed"


def test_a_job_goes_on_without_its_launcher_and_stop_ends_it(
    launch: Launch, criteo: dict[str, str], tmp_path: Path
) -> None:
    process = launch.train(small(criteo, tmp_path))
    name = launch.paddle_job()
    process.kill()
    process.communicate()
    launch.jobs.until_pods(name, "ps-0", "ps-1", "worker-0", "worker-1")
    record = launch.record()
    assert record["phase"] == "lost"
    launch.jobs.until(name, "Pending")
    status = json.loads(run("status", record["job"], "--json", env=launch.env).stdout)
    assert (status["job"], status["phase"]) == (launch.name, "pending")
    again = run("train", tmp_path / "job.yaml", "--on", "kubernetes", env=launch.env)
    assert again.returncode == 7
    assert f"the run '{launch.name}' is Pending already, as PaddleJob {name}: `clickline stop {record['job']}`" in (
        again.stderr
    )
    stopped = run("stop", record["job"], "--json", env=launch.env)
    assert json.loads(stopped.stdout)["hosts"] == {f"launched/{name}": "stopped"}
    assert launch.left() == []
    assert launch.record()["phase"] == "stopped"


@pytest.mark.heavy
def test_a_submission_is_started_with_the_objects_of_its_folder(
    launch: Launch, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = small(criteo, tmp_path)
    settings["cluster"] |= {"kubernetes": {"namespace": launch.jobs.namespace}, "trainers": 1, "pservers": 1}
    file = write_job(tmp_path / "job.yaml", settings)
    words = ["submit", "-m", file, "--on", "kubernetes", "--job-name", launch.name, "--wait", "--json"]
    launch.process = start(*words, env=launch.env, cwd=tmp_path)
    name = launch.paddle_job()
    assert name == launch.name
    kubelet = ProcessKubelet(launch.jobs, name, tmp_path)
    try:
        eventually(lambda: launch.process.poll() is not None, what="the end of the job", doing=kubelet.step)
    finally:
        kubelet.stop()
    out, err = launch.process.communicate()
    assert launch.process.returncode == 0, f"{out}\n{err}\n{kubelet.logs()}"
    assert json.loads(out)["result"]["rows"] == 4500
    again = start(*words, env=launch.env, cwd=tmp_path)
    out, err = again.communicate(timeout=100)
    assert again.returncode == 7, err
    taken = f"PaddleJob {name} is there already: `kubectl -n launched delete paddlejob {name}`"
    assert taken in json.loads(out)["error"]["message"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Pod\nmetadata: {name: a}\n", "hold Pod: expected are one PaddleJob NAME, and one ConfigMap"),
        ("kind: PaddleJob\nmetadata: {name: a}\n---\nkind: ConfigMap\nmetadata: {name: b}\n", "ConfigMap 'b'"),
        ("kind: PaddleJob\n---\nkind: ConfigMap\nmetadata: {name: b}\n", "a PaddleJob of the manifests has no name"),
        ("[1]\n", "no object of Kubernetes"),
        ("a: [\n", "cannot be read"),
    ],
)
def test_edited_objects_that_are_none_are_refused(text: str, message: str) -> None:
    job = Job.model_validate({"data": {"train": ["/data/a"]}})
    with pytest.raises(JobError, match=message):
        given_manifests(text, job, name="JOB20260131120000-1a2b", namespace="n")


REFUSED = Job.model_validate(
    {"name": "refused", "data": {"train": ["/data/a"]}, "cluster": {"pservers": 1, "kubernetes": {"image": IMAGE}}}
)
MANIFESTS = job_manifests(
    REFUSED,
    workspace=Path(),
    name="JOB20260131120000-1a2b",
    namespace="launched",
)


def test_rights_that_are_missing_are_named(launched: JobsClient, cluster: TestCluster, tmp_path: Path) -> None:
    pods = PlainPods(cluster, "launched", tmp_path)
    account = pods.use_account("nobody")
    pods.stop()
    expected = r"may not create paddlejobs, get paddlejobs, .*get pods/log in namespace"
    with ClusterClient(find_cluster({"KUBECONFIG": str(account)})) as client, pytest.raises(PeerError, match=expected):
        check_cluster(client, MANIFESTS)


def test_a_cluster_without_the_definition_is_told_of_it(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    # The one API server of the tests has the definition, so one is asked for that nobody has.
    monkeypatch.setitem(cluster_client.RESOURCES, "PaddleJob", "apis/none.example.com/v1/paddlejobs")
    access = find_cluster({"KUBECONFIG": str(cluster.kubeconfig)})
    expected = r"knows no PaddleJobs: kubectl create -f deploy/v1/crd\.yaml"
    with ClusterClient(access) as client, pytest.raises(PeerError, match=expected):
        check_cluster(client, MANIFESTS)


def test_a_namespace_that_is_not_there_is_refused(launched: JobsClient, cluster: TestCluster) -> None:
    manifests = job_manifests(
        REFUSED,
        workspace=Path(),
        name="JOB20260131120000-1a2b",
        namespace="nowhere",
    )
    access = find_cluster({"KUBECONFIG": str(cluster.kubeconfig)})
    expected = r'nothing was started:\n.* namespaces "nowhere" not found'
    with ClusterClient(access) as client, pytest.raises(PeerError, match=expected):
        check_cluster(client, manifests)


def test_a_cluster_that_does_not_answer_is_named(launch: Launch, criteo: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(Path(launch.env["KUBECONFIG"]).read_text().replace("https://127.0.0.1:", "https://127.0.0.2:"))
    launch.env["KUBECONFIG"] = str(file)
    process = launch.train(small(criteo, tmp_path))
    out, _ = process.communicate(timeout=100)
    assert process.returncode == 7
    assert "does not answer" in json.loads(out)["error"]["message"]
    assert json.loads(run("jobs", "--json", env=launch.env).stdout) == []
