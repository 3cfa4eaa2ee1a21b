"""Labels, annotations and names by which the objects of a job are found: paddle-operator's, and a few of our own."""

from __future__ import annotations

from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import PaddleJob

POD_LABEL = "paddle-res-name"
ROLE_LABEL = "paddle-res-type"
RESOURCE_ANNOTATION = "paddle-resource"
JOB_LABEL = "batch.paddlepaddle.org/job"
REVISION_ANNOTATION = "batch.paddlepaddle.org/revision"
MANAGER = "clickline-operator"
TOKEN_KEY = "token"  # noqa: S105  (the name of the key, not a token)


def endpoints_name(job: PaddleJob, revision: int) -> str:
    """The ConfigMap with the endpoints of a revision; the first has the job's name, as of paddle-operator."""
    return job.name if revision == 0 else f"{job.name}-r{revision}"


def token_name(job: PaddleJob) -> str:
    """The Secret with the token by which the processes of a job know each other.

    A job that is made again under the same name has another: that of its predecessor is about to be collected.
    """
    return f"{job.name}-token-{job.uid[:8]}"


def metadata(job: PaddleJob, name: str, **more: object) -> KubernetesObject:
    """Metadata of an object of the job, which is collected with it."""
    labels = {JOB_LABEL: job.name, "app.kubernetes.io/managed-by": MANAGER}
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": labels,
        "ownerReferences": [job.reference()],
        **more,
    }


def owner_uid(body: KubernetesObject) -> str:
    """The uid of the job that an object belongs to; empty if it belongs to none."""
    owners = body["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller") and owner["kind"] == "PaddleJob"), "")
