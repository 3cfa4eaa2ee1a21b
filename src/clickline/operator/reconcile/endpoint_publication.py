"""Endpoints of a job's pods, published for them in a ConfigMap as soon as every pod has an address.

Pods refer to it by their revision, so their containers are not started before it is there.
"""

from __future__ import annotations

from dataclasses import replace

from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.endpoints import endpoints_map
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import Plan


def publish_endpoints(job: PaddleJob, plan: Plan, pods: list[ObservedPod]) -> None:
    """Publish the endpoints of a revision as soon as every pod has an address."""
    status = plan.status
    if status.endpoints_revision == status.revision:
        return
    names = [name for names in job.pod_names().values() for name in names]
    hosts = {name: name for name in names} if job.service_mode else _addresses(pods)
    if not names or any(not hosts.get(name) for name in names):
        return
    # Pods of a revision that never had all its addresses wait for it still, and get the same.
    before = -1 if status.endpoints_revision is None else status.endpoints_revision
    revisions = {status.revision} | {pod.revision for pod in pods if pod.revision > before}
    job = replace(job, status=status)
    plan.publish = [endpoints_map(job, revision, hosts) for revision in sorted(revisions)]
    # A name of a service stays; whoever was told an IP must be replaced with the pod that had it.
    told = {} if job.service_mode else {pod.name: pod.uid for pod in pods if pod.name in hosts}
    plan.status = status.model_copy(update={"endpoints_revision": status.revision, "endpoints": told})


def _addresses(pods: list[ObservedPod]) -> dict[str, str]:
    return {pod.name: pod.ip for pod in pods if not pod.terminating and pod.state != "failed"}
