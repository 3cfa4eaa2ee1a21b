"""The operator as a process: watches, the controller, polls of progress, and a Lease if there are several."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
import socket
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import kopf

from clickline.errors import JobError, PeerError
from clickline.operator.controller.api_client import ApiClient, ApiError
from clickline.operator.controller.job_cache import JobCache
from clickline.operator.controller.job_controller import JobController
from clickline.operator.controller.job_watches import watch_handlers, watch_settings
from clickline.operator.controller.leader_lease import LeaderLease
from clickline.operator.controller.operator_http import operator_http
from clickline.operator.controller.operator_metrics import OperatorMetrics
from clickline.operator.controller.progress_poller import ProgressPoller
from clickline.operator.job.paddle_job import PLURAL
from clickline.operator.objects.gang import POD_GROUPS
from clickline.operator.reconcile.plan import ReconcileSettings

_log = logging.getLogger(__name__)
_REFRESH_SECONDS = 120.0
_STOP_SECONDS = 10.0
_HANGS_AFTER, _SILENT_AFTER = 600.0, 300.0
"""Seconds for a look at a job, whose requests take 30 at most; and without any answer of the API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorOptions:
    """How the operator is run."""

    namespaces: Sequence[str] = ()
    """Namespaces to watch; all of them if empty."""
    health: str = ""
    """HOST:PORT of metrics and health; none if empty."""
    lease: str = ""
    """NAMESPACE/NAME of the Lease by which one of several operators is chosen; none if empty."""
    lease_seconds: float = 15.0
    """Seconds after which another one takes the Lease of an operator that is gone."""
    progress_every: float = 5.0
    """Seconds between two looks at how far a running job is; never if 0."""
    reconcile: ReconcileSettings = field(default_factory=ReconcileSettings)


def run_operator(options: OperatorOptions) -> None:
    """Run the operator until SIGTERM or SIGINT."""
    # Of each event that was noted; what the controller does about it has lines of its own.
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    with suppress(asyncio.CancelledError):
        asyncio.run(_run(options))


def connection() -> kopf.ConnectionInfo:
    """The API server: of the pod that this runs in, else of the KUBECONFIG."""
    settings = kopf.OperatorSettings()
    info = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    if info is None:
        raise JobError("no cluster is known: run in a pod, or set KUBECONFIG to a file that names one")
    return info


async def _run(options: OperatorOptions) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None  # noqa: S101
    for number in (signal.SIGTERM, signal.SIGINT):  # until kopf takes care of them
        loop.add_signal_handler(number, task.cancel)
    cache, metrics = JobCache(), OperatorMetrics()
    async with ApiClient(connection, metrics=metrics) as client:
        lease = _lease(client, options)
        controller = JobController(
            client=client,
            cache=cache,
            settings=options.reconcile,
            metrics=metrics,
            namespaces=options.namespaces,
        )
        metrics.watch_jobs(cache.phases, leads=lambda: lease is None or lease.held)
        async with operator_http(
            options.health,
            metrics,
            not_live=lambda: controller.queue.hanging(_HANGS_AFTER),
            not_ready=lambda: _unanswered(client),
        ):
            # Health is answered from here on: an operator that stands by for the Lease is alive as well.
            await _check(client, options)
            if lease is not None:
                await lease.acquire()
                client.before_write = lease.check
            try:
                await _work(options, client=client, cache=cache, controller=controller, metrics=metrics, lease=lease)
            finally:
                if lease is not None:
                    await lease.release()


async def _work(
    options: OperatorOptions,
    *,
    client: ApiClient,
    cache: JobCache,
    controller: JobController,
    metrics: OperatorMetrics,
    lease: LeaderLease | None,
) -> None:
    """Run all parts until one of them ends: one that only watches is worse than none."""
    watches = kopf.operator(
        registry=watch_handlers(
            cache, controller.queue, scheduling=options.reconcile.scheduling, connection=connection
        ),
        settings=watch_settings(),
        standalone=True,
        identity=_identity(),
        clusterwide=not options.namespaces,
        namespaces=list(options.namespaces),
    )
    coroutines: list[Coroutine[Any, Any, None]] = [watches, controller.queue.run(), _refresh(controller, options)]
    if options.progress_every:
        poller = ProgressPoller(client=client, cache=cache, every=options.progress_every, metrics=metrics)
        coroutines.append(poller.run())
    if lease is not None:
        coroutines.append(lease.keep())
    parts = [asyncio.create_task(part) for part in coroutines]
    try:
        done, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        # Raises what ended it, so that the process ends with that reason and Kubernetes starts it again.
        for part in done:
            part.result()
    finally:
        for part in parts:
            part.cancel()
        await asyncio.wait(parts, timeout=_STOP_SECONDS)


def _lease(client: ApiClient, options: OperatorOptions) -> LeaderLease | None:
    if not options.lease:
        return None
    namespace, slash, name = options.lease.partition("/")
    if not slash or not namespace or not name or "/" in name:
        raise JobError(f"--lease is {options.lease!r}, expected NAMESPACE/NAME, such as paddle-system/operator")
    return LeaderLease(client, namespace=namespace, name=name, seconds=options.lease_seconds)


def _unanswered(client: ApiClient) -> list[str]:
    silence = time.monotonic() - client.answered_at
    return [f"the API server has not answered for {silence:.0f} s"] if silence > _SILENT_AFTER else []


def _identity() -> Any:
    """What kopf calls this operator. It would ask for the user's name, and in a pod the user seldom has one."""
    return f"{socket.gethostname()}/{secrets.token_hex(4)}"


async def _check(client: ApiClient, options: OperatorOptions) -> None:
    """Say what is missing in the cluster now: without a definition there is nothing to watch, and nobody would know."""
    wanted = {PLURAL: "deploy/v1/crd.yaml"} | ({POD_GROUPS: "Volcano"} if options.reconcile.scheduling else {})
    for resource, source in wanted.items():
        try:
            await client.list(resource, options.namespaces[0] if options.namespaces else "")
        except ApiError as error:
            if not error.is_missing:
                raise
            raise PeerError(f"the cluster does not know {resource!r}; install {source} first") from error


async def _refresh(controller: JobController, options: OperatorOptions) -> None:
    while True:
        await asyncio.sleep(_REFRESH_SECONDS)
        try:
            await controller.refresh(options.namespaces)
        except PeerError as error:
            _log.warning("jobs and pods could not be listed: %s", error)
