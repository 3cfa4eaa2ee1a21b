"""What kopf does for the operator: watches of jobs, pods and gangs that survive, and what they tell is noted.

Handlers only note what has changed. kopf's own way, a handler that is called for each change and keeps its progress in
annotations, would make a job wait for its slowest step and write to it at each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kopf

from clickline.operator.controller.job_cache import JobCache, key_of
from clickline.operator.controller.work_queue import WorkQueue
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import GROUP, PLURAL, VERSION
from clickline.operator.objects.gang import POD_GROUP_VERSION, POD_GROUPS, VOLCANO
from clickline.operator.objects.names import owner_uid
from clickline.operator.objects.pod_manifests import pod_selector

_SERVER_TIMEOUT = 300
"""Seconds after which a watch is opened again: one that a proxy has silently cut would else never end."""
_REQUEST_TIMEOUT, _CONNECT_TIMEOUT = 30.0, 10.0


def watch_settings() -> kopf.OperatorSettings:
    """How kopf watches."""
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # the controller posts events itself
    settings.scanning.disabled = True  # no need to read definitions, and so no right to
    settings.networking.request_timeout = _REQUEST_TIMEOUT
    settings.networking.connect_timeout = settings.watching.connect_timeout = _CONNECT_TIMEOUT
    settings.watching.server_timeout = _SERVER_TIMEOUT
    settings.watching.client_timeout = _SERVER_TIMEOUT + _REQUEST_TIMEOUT
    settings.watching.label_selectors["", "v1", "pods"] = pod_selector()
    return settings


def watch_handlers(
    cache: JobCache, queue: WorkQueue, *, scheduling: str, connection: Callable[[], kopf.ConnectionInfo]
) -> kopf.OperatorRegistry:
    """What kopf calls: each change goes to the cache, and its job to the queue."""
    registry = kopf.OperatorRegistry()
    kinds = [
        (GROUP, VERSION, PLURAL, cache.put_job, cache.drop_job),
        ("", "v1", "pods", cache.put_pod, cache.drop_pod),
    ]
    if scheduling == VOLCANO:
        group, _, version = POD_GROUP_VERSION.partition("/")
        kinds.append((group, version, POD_GROUPS, cache.put_group, cache.drop_group))

    @kopf.on.login(registry=registry)  # type: ignore[arg-type, unused-ignore]
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return connection()

    def watch(group: str, version: str, plural: str, put: Any, drop: Any) -> None:
        # Coroutines, all of them: kopf calls plain functions in threads, and neither cache nor queue is for threads.
        async def note(body: kopf.Body, **_: Any) -> None:
            put(_plain(body, plural))

        async def changed(type: str | None, body: kopf.Body, **_: Any) -> None:
            plain = _plain(body, plural)
            if plural == PLURAL or owner_uid(plain):
                (drop if type == "DELETED" else put)(plain)
                queue.add(key_of(plain))

        # An index is filled from all lists before any event is handled: no job is looked at without its pods.
        kopf.index(group, version, plural, registry=registry, id=f"known-{plural}")(note)
        kopf.on.event(group, version, plural, registry=registry, id=f"changed-{plural}")(changed)

    for kind in kinds:
        watch(*kind)
    return registry


def _plain(body: kopf.Body, plural: str) -> KubernetesObject:
    """An object without kopf's wrapping. Objects of a list lack their kind."""
    plain: KubernetesObject = {key: body[key] for key in body}
    return {**plain, "kind": "PaddleJob"} if plural == PLURAL else plain
