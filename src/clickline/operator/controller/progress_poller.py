"""Asks the pods of running jobs how far they are, and keeps the answer in the status of the job.

A pod answers without a token, at the port that the operator has given it; one that is not of ours does not answer, and
is asked less and less often. Whatever it says is bounded in time and size, and no redirect leads elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime

import aiohttp
import msgspec

from clickline.errors import ClicklineError, PeerError
from clickline.files.typed_json import decode_json
from clickline.net.addresses import url_of
from clickline.operator.controller.api_client import ApiClient, ApiError
from clickline.operator.controller.autoscaler import Autoscaler
from clickline.operator.controller.job_cache import JobCache
from clickline.operator.controller.job_patches import merge_patch
from clickline.operator.controller.operator_metrics import OperatorMetrics
from clickline.operator.controller.work_queue import JobKey
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.reconcile.run_report import RunReport, is_noticeable, trainer_status

_log = logging.getLogger(__name__)
_POLLED = ("Running", "Scaling", "Restarting", "Completing")
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_MOST_BYTES = 4 << 20
_CONNECTIONS = 16
_LONGEST_WAIT = 120.0
_PATCH_AFTER = 3
"""Polls between two changes of a job's status, at least."""


@dataclass(slots=True)
class _Polled:
    """What is known of one job. An operator that is started again begins anew."""

    next_at: float = 0.0
    failures: int = 0
    patched_at: float = float("-inf")


class ProgressPoller:
    """Polls all running jobs every so many seconds."""

    def __init__(self, *, client: ApiClient, cache: JobCache, every: float, metrics: OperatorMetrics) -> None:
        self._client, self._cache, self._every, self._metrics = client, cache, every, metrics
        self._polled: dict[str, _Polled] = {}
        self._autoscaler = Autoscaler(client=client, cache=cache)

    async def run(self) -> None:
        """Poll until cancelled."""
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, force_close=True)
        # No decompression: a small answer must not become a large one here.
        async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, auto_decompress=False) as session:
            while True:
                due = self._due()
                await asyncio.gather(*(self._poll(session, key) for key in due))
                await asyncio.sleep(self._every)

    def _due(self) -> list[JobKey]:
        now, due, known = time.monotonic(), [], {}
        for key in self._cache.job_keys():
            body = self._cache.job(key)
            if body is None or (body.get("status") or {}).get("phase") not in _POLLED:
                continue
            uid = body["metadata"]["uid"]
            known[uid] = self._polled.get(uid) or _Polled()
            if known[uid].next_at <= now:
                due.append(key)
        self._polled = known
        self._autoscaler.forget_all_but(set(known))
        return due

    async def _poll(self, session: aiohttp.ClientSession, key: JobKey) -> None:
        body = self._cache.job(key)
        if body is None:
            return
        job = PaddleJob.from_object(body)
        polled = self._polled.setdefault(job.uid, _Polled())
        try:
            url = self._url(job)
            if url is None:
                return
            report = await read_report(session, url)
            polled.failures = 0
        except PeerError as error:
            polled.failures += 1
            polled.next_at = time.monotonic() + min(self._every * 2.0**polled.failures, _LONGEST_WAIT)
            _log.debug("%s/%s: no progress: %s", key.namespace, key.name, error)
            self._metrics.poll_failures.inc()
            return
        try:
            job = await self._note(job, report, polled)
            await self._autoscaler.look_at(job, report)
        except ApiError as error:
            if not error.is_conflict:  # else the next poll sees the job as it is now
                _log.warning("%s/%s: progress is not noted: %s", key.namespace, key.name, error)
        except ClicklineError as error:
            _log.warning("%s/%s: progress is not noted: %s", key.namespace, key.name, error)

    def _url(self, job: PaddleJob) -> str | None:
        pods = self._cache.observed(job).pods
        pod = next((pod for pod in pods if pod.name == job.status_pod and not pod.terminating), None)
        if pod is None or not pod.ip or pod.state not in ("starting", "running"):
            return None
        return f"{url_of(pod.ip, job.metrics_port_of(pod.name))}/status"

    async def _note(self, job: PaddleJob, report: RunReport, polled: _Polled) -> PaddleJob:
        """Write the progress if somebody would notice; the job as it is then."""
        now = datetime.now(UTC)
        before, after = job.status.trainer_status, trainer_status(report, now=now)
        rested = time.monotonic() - polled.patched_at >= _PATCH_AFTER * self._every
        if not rested or not is_noticeable(before, after, now=now):
            return job
        polled.patched_at = time.monotonic()
        changes: KubernetesObject = {
            "trainerStatus": merge_patch({} if before is None else before.to_object(), after.to_object())
        }
        # With the uid: a job that has been made again under this name has another run.
        patch: KubernetesObject = {"metadata": {"uid": job.uid}, "status": changes}
        body = await self._client.patch_job(job.namespace, job.name, patch, status=True)
        self._cache.put_job(body)
        return PaddleJob.from_object(body)


async def read_report(session: aiohttp.ClientSession, url: str) -> RunReport:
    """The status of a run; raises PeerError if there is none that can be read."""
    try:
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise PeerError(f"{url} answers with {response.status}")
            content = bytearray()
            async for chunk in response.content.iter_chunked(1 << 16):
                content += chunk
                if len(content) > _MOST_BYTES:
                    raise PeerError(f"{url} answers with more than {_MOST_BYTES} bytes")
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise PeerError(f"{url} does not answer: {error or type(error).__name__}") from error
    try:
        return decode_json(content, RunReport)
    except msgspec.MsgspecError as error:
        raise PeerError(f"{url} does not answer with the status of a run: {error}") from error
