"""What is shipped and what is made: accepted by the API server, and known field by field to a current Kubernetes."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from clickline.config import Job
from clickline.operator.job import definition
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import Observed, ReconcileSettings
from clickline.operator.reconcile.reconcile import reconcile
from support.kubernetes import jobs_client
from support.kubernetes.jobs_client import JobsClient, paddle_job, role

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))
CURRENT = "1.37"
NOT_BUILT_IN = {"PaddleJob", "PodMonitor"}
EXAMPLES = [file for file in FILES if file.parent.name == "examples" and file.name != "podmonitor.yaml"]
POD_MONITOR = Path(jobs_client.__file__).with_name("podmonitor.yaml")


def shipped() -> list[dict[str, Any]]:
    return [body for file in FILES for body in yaml.safe_load_all(file.read_text(encoding="utf-8"))]


def test_the_definition_is_current() -> None:
    remedy = "run make reference"
    assert (DEPLOY / "v1" / "crd.yaml").read_text(encoding="utf-8") == definition.text(), remedy


def test_every_field_of_the_definition_has_a_description() -> None:
    (version,) = definition.definition()["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    silent: list[str] = []

    def walk(schema: dict[str, Any], path: str) -> None:
        if "description" not in schema:
            silent.append(path)
        for name, inner in schema.get("properties", {}).items():
            if not path.endswith(".template"):  # a pod's own fields
                walk(inner, f"{path}.{name}")

    for part in ("spec", "status"):
        walk(properties[part], part)
    assert silent == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_api_server_accepts_what_is_shipped(jobs: JobsClient, file: Path) -> None:
    if file.name == "podmonitor.yaml":
        jobs.kubectl("apply", "-f", str(POD_MONITOR))
        jobs.kubectl("wait", "--for=condition=Established", "crd/podmonitors.monitoring.coreos.com")
    ended = jobs.kubectl("apply", "--dry-run=server", "-f", str(file), namespaced=False)
    assert "(server dry run)" in ended.stdout


def test_a_current_kubernetes_knows_every_field_of_what_is_shipped() -> None:
    for body in shipped():
        if body["kind"] not in NOT_BUILT_IN:
            kubernetes_validate.validate(body, CURRENT, strict=True)


@pytest.mark.parametrize("intranet", ["PodIP", "Service", "Host"])
def test_a_current_kubernetes_knows_every_field_of_what_is_made(intranet: str) -> None:
    metadata = {"namespace": "n", "name": "j", "uid": "u", "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    spec = paddle_job("j", intranet=intranet, elastic=1, withGloo=1, ps=role(1), worker=role(2), heter=role(1))["spec"]
    job = PaddleJob.from_object({"metadata": metadata, "spec": spec})
    now, settings = datetime.now(UTC), ReconcileSettings()
    first = reconcile(Observed(job=job), settings=settings, now=now)
    pods = [
        ObservedPod(name=name, uid=name, role=part, index=index, state="running", ip=f"10.0.0.{index}")
        for part, names in job.pod_names().items()
        for index, name in enumerate(names)
    ]
    second = reconcile(Observed(job=replace(job, status=first.status), pods=pods), settings=settings, now=now)
    made = [*first.creations, *first.publish, *second.publish]
    kinds = {"Pod", "Secret", "ConfigMap"} | ({"Service"} if intranet == "Service" else set())
    assert {body["kind"] for body in made} == kinds
    for body in made:
        kubernetes_validate.validate(body, CURRENT, strict=True)


def test_the_operator_may_do_no_more_than_it_needs() -> None:
    (cluster_role,) = [body for body in shipped() if body["kind"] == "ClusterRole"]
    rights = {
        (resource, verb) for rule in cluster_role["rules"] for resource in rule["resources"] for verb in rule["verbs"]
    }
    assert not any("*" in right for right in rights)
    # It makes tokens and can read none, of its own jobs or of anybody's.
    assert {verb for resource, verb in rights if resource == "secrets"} == {"create"}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_the_job_of_an_example_is_one_that_can_be_trained(file: Path) -> None:
    bodies = {body["kind"]: body for body in yaml.safe_load_all(file.read_text(encoding="utf-8"))}
    job = Job.model_validate(yaml.safe_load(bodies["ConfigMap"]["data"]["job.yaml"]))
    spec = bodies["PaddleJob"]["spec"]
    assert job.name == bodies["PaddleJob"]["metadata"]["name"]
    assert (job.strategy == "collective") == ("ps" not in spec)
    for part, verb in {"ps": "pserver", "worker": "trainer" if "ps" in spec else "train"}.items():
        if part in spec:
            (container,) = spec[part]["template"]["spec"]["containers"]
            assert container["command"] == ["clickline", verb, "/job/job.yaml"]
            probes = {container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "startup", "readiness")}
            assert probes == {"/livez", "/readyz"}
