"""Writes what the policies of jobs decide into their status, where the controller finds the number of workers."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from clickline.operator.controller.api_client import ApiClient
from clickline.operator.controller.job_cache import JobCache
from clickline.operator.controller.job_patches import merge_patch
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.autoscaling import Measured, decide, why_not
from clickline.operator.reconcile.run_report import RunReport

_log = logging.getLogger(__name__)


class Autoscaler:
    """Of all jobs; it is told of each report of a run."""

    def __init__(self, *, client: ApiClient, cache: JobCache) -> None:
        self._client, self._cache = client, cache
        self._measured: dict[str, Measured] = {}

    def forget_all_but(self, uids: set[str]) -> None:
        """Forget jobs that are not running any more."""
        self._measured = {uid: measured for uid, measured in self._measured.items() if uid in uids}

    async def look_at(self, job: PaddleJob, report: RunReport) -> None:
        """Decide about a job, and write the decision if it is another one."""
        if job.spec.worker is None or job.spec.worker.autoscaling is None or why_not(job):
            return
        before = job.status.autoscaling
        after = decide(job, report, self._measured.setdefault(job.uid, Measured()), now=datetime.now(UTC))
        if after == before:
            return
        changes = merge_patch({} if before is None else before.to_object(), after.to_object())
        # Refused if the job has changed since: the limits may be others.
        patch: KubernetesObject = {
            "metadata": {"uid": job.uid, "resourceVersion": job.resource_version},
            "status": {"autoscaling": changes},
        }
        self._cache.put_job(await self._client.patch_job(job.namespace, job.name, patch, status=True))
        if before is None or before.desired_replicas != after.desired_replicas:
            _log.info("%s/%s: %d workers, %s", job.namespace, job.name, after.desired_replicas, after.message)
