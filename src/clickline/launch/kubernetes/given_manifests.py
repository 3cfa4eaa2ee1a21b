"""The objects of a job as a submission folder has them, edited or not: a PaddleJob and a ConfigMap."""

from __future__ import annotations

import re

from clickline.config import Job
from clickline.config.loading.yaml_lines import UnreadableError, parse
from clickline.errors import JobError
from clickline.launch.kubernetes.job_manifests import JOB_LABEL, RUN_LABEL, JobManifests, label_value
from clickline.operator.job.fields import KubernetesObject

_EXPECTED = "expected are one PaddleJob NAME, and one ConfigMap NAME-files"


def given_manifests(text: str, job: Job, *, name: str, namespace: str) -> JobManifests:
    """The objects of a YAML text, in a namespace unless they name one, marked as those of this job. Raises JobError."""
    bodies = _bodies(text)
    jobs, files = ([body for body in bodies if body.get("kind") == kind] for kind in ("PaddleJob", "ConfigMap"))
    if len(jobs) != 1 or len(files) != 1 or len(bodies) != 2:
        raise JobError(f"the manifests hold {', '.join(str(body.get('kind')) for body in bodies)}: {_EXPECTED}")
    resource = _name(jobs[0])
    if _name(files[0]) != f"{resource}-files":
        raise JobError(f"the manifests name the ConfigMap {_name(files[0])!r}: {_EXPECTED}")
    namespace = str(jobs[0]["metadata"].get("namespace") or namespace)
    for body in bodies:
        labels = {RUN_LABEL: label_value(job.name), JOB_LABEL: name}
        metadata = body["metadata"]
        body["metadata"] = {**metadata, "namespace": namespace, "labels": {**(metadata.get("labels") or {}), **labels}}
    return JobManifests(
        name=resource,
        namespace=namespace,
        paddle_job=jobs[0],
        files=files[0],
        run_directory=f"{job.output.rstrip('/')}/{job.name}",
        shared=True,  # what pods do with their results is a matter of the hooks
    )


def _bodies(text: str) -> list[KubernetesObject]:
    bodies = []
    for part in re.split(r"^---\s*$", text, flags=re.MULTILINE):
        try:
            tree = parse(part)
        except UnreadableError as error:
            raise JobError(f"the manifests cannot be read: {error}") from None
        if isinstance(tree.value, dict):
            bodies.append(tree.value)
        elif tree.value is not None:
            raise JobError(f"the manifests hold something that is no object of Kubernetes: {_EXPECTED}")
    return bodies


def _name(body: KubernetesObject) -> str:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise JobError(f"a {body.get('kind')} of the manifests has no name: {_EXPECTED}")
    return str(metadata["name"])
