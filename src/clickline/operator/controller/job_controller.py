"""Carries out plans: the steps of one look at a job, such that the operator may be killed between any two."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import Literal

from pydantic import ValidationError

from clickline.errors import ClicklineError, JobError
from clickline.files.failpoints import reach
from clickline.operator.controller.api_client import RESOURCES, ApiClient, ApiError
from clickline.operator.controller.foreign_ports import ForeignPorts
from clickline.operator.controller.job_cache import JobCache
from clickline.operator.controller.job_patches import merge_patch
from clickline.operator.controller.operator_metrics import OperatorMetrics
from clickline.operator.controller.work_queue import JobKey, WorkQueue
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import API_VERSION, KIND, PADDLE_FINALIZER, PLURAL, PaddleJob
from clickline.operator.objects.names import MANAGER, ROLE_LABEL, owner_uid
from clickline.operator.objects.pod_manifests import pod_selector
from clickline.operator.reconcile.phases import ended
from clickline.operator.reconcile.plan import Deletion, JobEvent, Plan, ReconcileSettings, timestamp
from clickline.operator.reconcile.reconcile import reconcile

_log = logging.getLogger(__name__)
_WORKERS = 8
_LONGEST_MESSAGE = 1000
_APPLIED = ("PodGroup",)
"""Kinds that may be there and differ; all others are made once and stay."""


class JobController:
    """Looks at jobs when something about them has changed, and does what is to be done."""

    def __init__(
        self,
        *,
        client: ApiClient,
        cache: JobCache,
        settings: ReconcileSettings,
        metrics: OperatorMetrics,
        namespaces: Sequence[str] = (),
    ) -> None:
        """`namespaces` are those that are watched; all of them if there are none."""
        self._client, self._cache, self._settings, self._metrics = client, cache, settings, metrics
        self._ports = ForeignPorts(client, watched=namespaces)
        self.queue = WorkQueue(self.look_at, workers=_WORKERS)

    async def look_at(self, key: JobKey) -> None:
        """Do what is to be done about a job now."""
        with self._metrics.reconcile_seconds.time():
            try:
                result = await self._look_at(key)
            except Exception:
                self._metrics.reconciles.labels("failed").inc()
                raise
        self._metrics.reconciles.labels(result).inc()

    async def _look_at(self, key: JobKey) -> Literal["done", "conflict"]:
        body = self._cache.job(key)
        if body is None:
            return "done"
        try:
            job = PaddleJob.from_object(body)
        except ValidationError as error:
            # Only if the definition in the cluster is not ours; the next change of the job is another chance.
            _log.warning("%s/%s is not a job that can be run: %s", key.namespace, key.name, error)
            return "done"
        elsewhere = await self._ports.taken_for(job)
        observed = self._cache.observed(job)
        observed = replace(observed, taken_ports=observed.taken_ports | elsewhere)
        plan = reconcile(observed, settings=self._settings, now=datetime.now(UTC))
        self._cache.reserve(job.uid, plan.status.port_blocks.values())
        try:
            await self._carry_out(job, plan)
        except ApiError as error:
            if error.is_conflict:  # somebody has changed the job since; the watch will tell, or has told already
                self.queue.add(key)
            elif not error.is_missing or self._cache.job(key) is not None:
                await self._post(job, [JobEvent("Warning", "RequestFailed", str(error))])
                raise
            return "conflict"
        except JobError as error:
            await self._post(job, [JobEvent("Warning", "CreateFailed", f"create failed: {error}")])
            raise
        if plan.look_again_after is not None:
            self.queue.add(key, delay=plan.look_again_after)
        return "done"

    async def _carry_out(self, job: PaddleJob, plan: Plan) -> None:
        for body in plan.publish:
            await self._client.apply(body)
            reach("operator.endpoints-published")
        await self._write_status(job, plan.status)
        await self._delete(job, plan.deletions)
        await self._create(job, plan)
        if plan.release_job:
            left = [one for one in job.finalizers if one != PADDLE_FINALIZER]
            await self._client.patch_job(job.namespace, job.name, {"metadata": {"finalizers": left}})
        if plan.delete_job:
            reach("operator.job-expired")
            await self._client.delete(PLURAL, job.namespace, job.name, uid=job.uid)
        await self._post(job, plan.events)

    async def _write_status(self, job: PaddleJob, status: JobStatus) -> None:
        changes = merge_patch(job.status.to_object(), status.to_object())
        if not changes and job.status.phase is not None:
            return
        reach("operator.before-status")
        # Refused if the job has changed since: then there is a newer one to look at.
        body: KubernetesObject = {"status": changes, "metadata": {"resourceVersion": job.resource_version}}
        self._cache.put_job(await self._client.patch_job(job.namespace, job.name, body, status=True))
        reach("operator.status-written")
        if status.phase != job.status.phase:
            _log.info("%s/%s: %s, %s", job.namespace, job.name, status.phase, status.message)

    async def _delete(self, job: PaddleJob, deletions: Sequence[Deletion]) -> None:
        for one in deletions:
            await self._client.delete(one.resource, job.namespace, one.name, uid=one.uid)
            reach("operator.deleted-one")
        if pods := [one.name for one in deletions if one.resource == "pods"]:
            await self._post(job, [JobEvent("Normal", "Deleted", f"deleted Pod {', '.join(pods)}")])

    async def _create(self, job: PaddleJob, plan: Plan) -> None:
        for (kind, _), group in groupby(plan.creations, key=_stage):
            bodies = list(group)
            try:
                made = await asyncio.gather(*(self._make(job, body) for body in bodies), return_exceptions=True)
            finally:
                reach("operator.created-stage")
            errors = [error for error in made if isinstance(error, BaseException)]
            invalid = next((error for error in errors if isinstance(error, ApiError) and error.is_invalid), None)
            if invalid is not None:
                await self._give_up(job, invalid)
                return
            names = [body["metadata"]["name"] for body, new in zip(bodies, made, strict=True) if new is True]
            if names and kind in ("Pod", "PodGroup"):
                await self._post(job, [JobEvent("Normal", "Created", f"created {kind} {', '.join(names)}")])
            if errors:
                raise errors[0]

    async def _make(self, job: PaddleJob, body: KubernetesObject) -> bool:
        """Make an object; whether it was not there. One of the same name that is not the job's is an error."""
        kind, name = body["kind"], body["metadata"]["name"]
        if kind in _APPLIED:
            await self._client.apply(body)
            return True
        try:
            made = await self._client.create(body)
            if kind == "Pod":
                # Before the watch tells of it: a next look would else make the pod again, and be refused.
                self._cache.put_pod(made)
            reach("operator.created-one")
        except ApiError as error:
            if not error.is_conflict:
                raise
            # The operator may not read Secrets; a token that somebody else has put there is as good.
            if kind != "Secret":
                there = await self._client.get(RESOURCES[kind], job.namespace, name)
                if owner_uid(there) != job.uid:
                    raise JobError(
                        f"there is a {kind} {name!r} that does not belong to this job; delete it, or name the job "
                        "otherwise"
                    ) from None
            return False
        return True

    async def _give_up(self, job: PaddleJob, error: ApiError) -> None:
        """Let a job fail whose objects the API server will never accept."""
        body = self._cache.job(JobKey(job.namespace, job.name))
        if body is None or body["metadata"]["uid"] != job.uid:
            return
        now = PaddleJob.from_object(body)
        message = f"the API server refuses an object of the job: {error}"[:_LONGEST_MESSAGE]
        status = ended(now.status, now, failed=True, reason="Invalid", message=message, now=datetime.now(UTC))
        await self._write_status(now, status)
        await self._post(job, [JobEvent("Warning", "Invalid", message)])

    async def _post(self, job: PaddleJob, events: Sequence[JobEvent]) -> None:
        now = timestamp(datetime.now(UTC))
        for event in events:
            body = {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{job.name}.{secrets.token_hex(8)}", "namespace": job.namespace},
                "involvedObject": {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "namespace": job.namespace,
                    "name": job.name,
                    "uid": job.uid,
                    "resourceVersion": job.resource_version,
                },
                "type": event.kind,
                "reason": event.reason,
                "message": event.message[:_LONGEST_MESSAGE],
                "source": {"component": MANAGER},
                "reportingComponent": MANAGER,
                "reportingInstance": MANAGER,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
            }
            try:
                await self._client.create(body)
            except ClicklineError as error:  # an event is only for people: the work goes on without it
                _log.warning("%s/%s: no event %s: %s", job.namespace, job.name, event.reason, error)

    async def refresh(self, namespaces: Sequence[str]) -> None:
        """List all jobs and pods, and look at every job again: whatever a watch has missed does not stay so."""
        known = self._cache.uids()  # before the lists are made: what comes meanwhile is not in them
        there: set[str] = set()
        for namespace in namespaces or [""]:
            for job in await self._client.list(PLURAL, namespace):
                self._cache.put_job({**job, "kind": KIND})
                there.add(job["metadata"]["uid"])
            for pod in await self._client.list("pods", namespace, labels=pod_selector()):
                self._cache.put_pod(pod)
                there.add(pod["metadata"]["uid"])
        self._cache.forget(known - there)
        for key in self._cache.job_keys():
            self.queue.add(key)


def _stage(body: KubernetesObject) -> tuple[str, str]:
    """Objects of one stage are made side by side."""
    return body["kind"], (body["metadata"].get("labels") or {}).get(ROLE_LABEL, "")
