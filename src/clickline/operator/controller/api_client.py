"""The requests that the operator makes, over the connection that kopf's login finds.

Kubernetes' own Python client is 30 MB of generated classes, of which five requests would be used.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType

import aiohttp
import kopf

from clickline.errors import PeerError
from clickline.operator.controller.operator_metrics import OperatorMetrics
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import API_VERSION, PLURAL
from clickline.operator.objects.gang import POD_GROUP_VERSION, POD_GROUPS
from clickline.operator.objects.names import MANAGER

_log = logging.getLogger(__name__)
LEASES, LEASE_VERSION = "leases", "coordination.k8s.io/v1"
_VERSIONS = {
    "pods": "v1",
    "services": "v1",
    "configmaps": "v1",
    "secrets": "v1",
    "events": "v1",
    PLURAL: API_VERSION,
    POD_GROUPS: POD_GROUP_VERSION,
    LEASES: LEASE_VERSION,
}
RESOURCES = {
    "Pod": "pods",
    "Service": "services",
    "ConfigMap": "configmaps",
    "Secret": "secrets",
    "Event": "events",
    "PodGroup": POD_GROUPS,
    "Lease": LEASES,
}
_MERGE, _APPLY = "application/merge-patch+json", "application/apply-patch+yaml"
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_CONNECTIONS = 16
_TOO_MANY, _UNAUTHORIZED = 429, 401
_LONG_WAIT, _WARN_EVERY = 1.0, 30.0


class ApiError(PeerError):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_missing(self) -> bool:
        return self.status == 404

    @property
    def is_conflict(self) -> bool:
        return self.status == 409

    @property
    def is_invalid(self) -> bool:
        """Whether another try can only be refused again."""
        return self.status in (400, 422)


class ApiClient:
    """A client of the API server, to be used as a context manager."""

    def __init__(self, login: Callable[[], kopf.ConnectionInfo], *, metrics: OperatorMetrics) -> None:
        self._login = login
        self._info = login()
        self._session: aiohttp.ClientSession | None = None
        self._metrics = metrics
        self._connections = asyncio.Semaphore(_CONNECTIONS)
        self._warned_at = -_WARN_EVERY
        self.answered_at = time.monotonic()
        """When the API server last answered, whatever it said."""
        self.before_write: Callable[[], None] = lambda: None
        """Called before each request that changes something but a Lease; it may raise."""

    async def __aenter__(self) -> ApiClient:
        self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    def _open(self) -> None:
        connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._info.as_ssl_context())
        headers = self._info.as_http_headers()
        self._session = aiohttp.ClientSession(connector=connector, headers=headers, timeout=_TIMEOUT)

    async def create(self, body: KubernetesObject) -> KubernetesObject:
        """Create an object; raises ApiError if there is one of its name."""
        path = self._path(RESOURCES[body["kind"]], body["metadata"]["namespace"])
        # From 1.25 on, a misspelt field of a pod is refused instead of dropped.
        return await self._request("POST", path, body, query={"fieldValidation": "Strict"})

    async def apply(self, body: KubernetesObject) -> KubernetesObject:
        """Create an object or make it as it should be (server-side apply)."""
        metadata = body["metadata"]
        path = self._path(RESOURCES[body["kind"]], metadata["namespace"], metadata["name"])
        return await self._request("PATCH", path, body, query={"fieldManager": MANAGER, "force": "true"}, kind=_APPLY)

    async def patch_job(
        self, namespace: str, name: str, body: KubernetesObject, *, status: bool = False
    ) -> KubernetesObject:
        """Merge into a PaddleJob, or into its status."""
        path = self._path(PLURAL, namespace, name) + ("/status" if status else "")
        return await self._request("PATCH", path, body, kind=_MERGE)

    async def replace(self, resource: str, body: KubernetesObject) -> KubernetesObject:
        """Replace an object; refused if it is not of the version in the body any more."""
        metadata = body["metadata"]
        return await self._request("PUT", self._path(resource, metadata["namespace"], metadata["name"]), body)

    async def get(self, resource: str, namespace: str, name: str) -> KubernetesObject:
        return await self._request("GET", self._path(resource, namespace, name))

    async def delete(self, resource: str, namespace: str, name: str, *, uid: str = "") -> None:
        """Delete an object, only this very one if a uid is given. One that is gone is no error."""
        body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        options: KubernetesObject = body | ({"preconditions": {"uid": uid}} if uid else {})
        try:
            await self._request("DELETE", self._path(resource, namespace, name), options)
        except ApiError as error:
            if not error.is_missing and not error.is_conflict:
                raise

    async def list(self, resource: str, namespace: str = "", *, labels: str = "") -> list[KubernetesObject]:
        """All objects, of one namespace or of all."""
        query = {"labelSelector": labels} if labels else {}
        answer = await self._request("GET", self._path(resource, namespace), query=query)
        return list(answer["items"])

    @staticmethod
    def _path(resource: str, namespace: str, name: str = "") -> str:
        version = _VERSIONS[resource]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        within = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{within}/{resource}" + (f"/{name}" if name else "")

    async def _request(
        self,
        method: str,
        path: str,
        body: KubernetesObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        kind: str = "application/json",
    ) -> KubernetesObject:
        renewed = False
        while True:
            status, answer, wait = await self._once(method, path, body, query=query, kind=kind)
            if status == _UNAUTHORIZED and not renewed:
                # Tokens of service accounts are renewed in their files every hour.
                renewed = True
                self._info = self._login()
                await self.__aexit__(None, None, None)
                self._open()
            elif status == _TOO_MANY:
                _log.warning("the API server is busy (429): %s %s waits for %s s", method, path, wait)
                self._metrics.waited("server", wait)
                await asyncio.sleep(wait)
            elif status >= 400:
                raise ApiError(status, f"{method} {path}: {answer.get('message') or status}")
            else:
                return answer

    async def _once(
        self, method: str, path: str, body: KubernetesObject | None, *, query: Mapping[str, str] | None, kind: str
    ) -> tuple[int, KubernetesObject, float]:
        assert self._session is not None, "to be used as a context manager"  # noqa: S101
        data = None if body is None else json.dumps(body)
        url = self._info.server.rstrip("/") + path
        headers = {"Content-Type": kind, "Accept": "application/json"}
        resource, name = _parts(path)
        verb = "LIST" if method == "GET" and not name else method
        code = "none"
        async with self._connection():
            # After the wait, right before the request: a right to write may have ended meanwhile.
            if method != "GET" and resource != LEASES:
                self.before_write()
            try:
                async with self._session.request(method, url, data=data, params=query, headers=headers) as response:
                    text = await response.text()
                    wait = float(response.headers.get("Retry-After", "1"))
                    code, self.answered_at = str(response.status), time.monotonic()
                    return response.status, _json(text), wait
            except (aiohttp.ClientError, TimeoutError) as error:
                raise PeerError(f"the API server at {self._info.server} does not answer: {error}") from error
            finally:
                self._metrics.requests.labels(verb, resource, code).inc()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[None]:
        """One of the connections; says so if it had to be waited for."""
        asked_at = time.monotonic()
        async with self._connections:
            waited = time.monotonic() - asked_at
            if waited > _LONG_WAIT:
                self._metrics.waited("client", waited)
                if asked_at - self._warned_at > _WARN_EVERY:
                    self._warned_at = asked_at
                    _log.warning(
                        "requests wait for each other: one waited %.1f s for one of %d connections to the API server",
                        waited,
                        _CONNECTIONS,
                    )
            yield


def _parts(path: str) -> tuple[str, str]:
    """The resource and the name in a path; objects and namespaces may be called like a resource."""
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    within = parts[2:] if parts[0] == "namespaces" else parts
    return within[0], within[1] if len(within) > 1 else ""


def _json(text: str) -> KubernetesObject:
    try:
        answer = json.loads(text)
    except ValueError:
        return {"message": text[:1000]}
    return answer if isinstance(answer, dict) else {"message": text[:1000]}
