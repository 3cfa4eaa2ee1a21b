"""Requests to the API server from the command line and from pods, over httpx; objects are as Kubernetes' JSON has them.

The operator has a client of its own: it lives in kopf's event loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import httpx
import msgspec

from clickline.errors import PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.kubernetes.cluster_access import ClusterAccess
from clickline.operator.job.fields import KubernetesObject

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_FORBIDDEN, _MISSING, _CONFLICT, _UNAUTHORIZED = 403, 404, 409, 401
RESOURCES = {
    "Pod": "api/v1/pods",
    "ConfigMap": "api/v1/configmaps",
    "Secret": "api/v1/secrets",
    "Service": "api/v1/services",
    "ServiceAccount": "api/v1/serviceaccounts",
    "PersistentVolumeClaim": "api/v1/persistentvolumeclaims",
    "Deployment": "apis/apps/v1/deployments",
    "StatefulSet": "apis/apps/v1/statefulsets",
    "Job": "apis/batch/v1/jobs",
    "Role": "apis/rbac.authorization.k8s.io/v1/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "NetworkPolicy": "apis/networking.k8s.io/v1/networkpolicies",
    "PodDisruptionBudget": "apis/policy/v1/poddisruptionbudgets",
    "HorizontalPodAutoscaler": "apis/autoscaling/v2/horizontalpodautoscalers",
    "PaddleJob": "apis/batch.paddlepaddle.org/v1/paddlejobs",
}
"""The path of each kind, without its namespace."""


class ClusterRefusal(PeerError):
    """The API server refused a request."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_forbidden(self) -> bool:
        return self.status in (_FORBIDDEN, _UNAUTHORIZED)

    @property
    def is_missing(self) -> bool:
        return self.status == _MISSING

    @property
    def is_conflict(self) -> bool:
        return self.status == _CONFLICT


class ClusterClient:
    """A client of one cluster, to be used as a context manager."""

    def __init__(self, access: ClusterAccess) -> None:
        self.access = access
        self._http = httpx.Client(
            base_url=access.server,
            verify=access.ssl_context(),
            timeout=_TIMEOUT,
            proxy=access.proxy or None,
            trust_env=not access.in_pod,  # from a pod the API server is never behind a proxy
        )

    def __enter__(self) -> ClusterClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, kind: str, namespace: str, name: str) -> KubernetesObject:
        return self._object("GET", resource_path(kind, namespace, name))

    def find(self, kind: str, namespace: str, name: str) -> KubernetesObject | None:
        """The object, or None if there is none of this name."""
        try:
            return self.get(kind, namespace, name)
        except ClusterRefusal as error:
            if error.is_missing:
                return None
            raise

    def list(self, kind: str, namespace: str, *, labels: str = "") -> list[KubernetesObject]:
        query = {"labelSelector": labels} if labels else {}
        return list(self._object("GET", resource_path(kind, namespace), query=query)["items"])

    def create(self, body: KubernetesObject, *, dry_run: bool = False) -> KubernetesObject:
        """Make an object; ClusterRefusal with `is_conflict` if there is one of its name."""
        # From 1.25 on, a misspelt field of a pod is refused instead of dropped.
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = resource_path(body["kind"], body["metadata"]["namespace"])
        return self._object("POST", path, body, query=query)

    def apply(self, body: KubernetesObject, *, manager: str, dry_run: bool = False) -> KubernetesObject:
        """Make an object, or make it as it is given: fields that were applied before and are gone are removed."""
        metadata = body["metadata"]
        path = resource_path(body["kind"], metadata["namespace"], metadata["name"])
        query = {"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry_run else {})
        return self._object("PATCH", path, body, query=query, media="application/apply-patch+yaml")

    def page(self, namespace: str, pod: str, port: int, path: str) -> KubernetesObject | None:
        """A page that a pod serves by HTTP without a token, through the API server; None if it does not come."""
        try:
            return self._object("GET", f"{resource_path('Pod', namespace, f'{pod}:{port}')}/proxy{path}")
        except PeerError:
            return None

    def replace(self, body: KubernetesObject) -> KubernetesObject:
        """Replace an object, the very one that was read: ClusterRefusal with `is_conflict` if it changed since."""
        metadata = body["metadata"]
        return self._object("PUT", resource_path(body["kind"], metadata["namespace"], metadata["name"]), body)

    def merge(self, kind: str, namespace: str, name: str, changes: KubernetesObject) -> KubernetesObject:
        """Change some fields of an object."""
        path = resource_path(kind, namespace, name)
        return self._object("PATCH", path, changes, media="application/merge-patch+json")

    def delete(self, kind: str, namespace: str, name: str, *, uid: str = "") -> bool:
        """Delete an object, only this very one if a uid is given; whether it was there."""
        body: KubernetesObject = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
        if uid:
            body["preconditions"] = {"uid": uid}
        try:
            self._object("DELETE", resource_path(kind, namespace, name), body)
        except ClusterRefusal as error:
            if not error.is_missing and not error.is_conflict:
                raise
            return False
        return True

    def may(self, verb: str, kind: str, namespace: str, *, part: str = "") -> bool:
        """Whether we have the right to do something; every account may ask that of itself."""
        group, resource = _group_and_resource(kind)
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": part}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        }
        answer = self._object("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
        return bool(answer["status"].get("allowed"))

    def has_kind(self, kind: str) -> bool:
        """Whether the cluster knows a kind of objects."""
        root, _, resource = RESOURCES[kind].rpartition("/")
        try:
            listed = self._object("GET", f"/{root}")
        except ClusterRefusal as error:
            if error.is_missing:
                return False
            raise
        return any(one.get("name") == resource for one in listed.get("resources") or ())

    def version(self) -> str:
        """Of the API server, such as v1.30.1."""
        return str(self._object("GET", "/version").get("gitVersion", ""))

    @contextmanager
    def lines(self, namespace: str, pod: str, **query: str) -> Iterator[Iterator[str]]:
        """The log of a pod, line by line as it is written if `follow` is true."""
        path = resource_path("Pod", namespace, pod) + "/log"
        # A container may be silent for as long as it likes.
        timeout = httpx.Timeout(30.0, read=None if query.get("follow") == "true" else 30.0)
        try:
            with self._http.stream("GET", path, params=query, timeout=timeout, **self._options()) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise _refusal("GET", path, answer)
                yield answer.iter_lines()
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None

    def _object(
        self,
        method: str,
        path: str,
        body: KubernetesObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        media: str = "application/json",
    ) -> KubernetesObject:
        content = None if body is None else json.dumps(body)
        try:
            answer = self._http.request(
                method, path, content=content, params=query, **self._options({"Content-Type": media})
            )
        except httpx.HTTPError as error:
            raise self._unreachable(error) from None
        if answer.status_code >= 400:
            raise _refusal(method, path, answer)
        try:
            return decode_json(answer.content, dict[str, Any])
        except msgspec.MsgspecError:
            raise PeerError(f"{self.access.server}: not an API server of Kubernetes, by its answer") from None

    def _options(self, headers: Mapping[str, str] | None = None) -> dict[str, Any]:
        token = self.access.bearer_token()
        authorization = {"Authorization": f"Bearer {token}"} if token else {}
        name = {"sni_hostname": self.access.server_name} if self.access.server_name else {}
        return {"headers": {**authorization, **(headers or {})}, "extensions": name}

    def _unreachable(self, error: httpx.HTTPError) -> PeerError:
        access = self.access
        return PeerError(
            f"the API server at {access.server} ({access.source}) does not answer: {str(error) or type(error).__name__}"
        )


def resource_path(kind: str, namespace: str, name: str = "") -> str:
    """The path of an object, or of all of its kind in a namespace."""
    root, _, resource = RESOURCES[kind].rpartition("/")
    return f"/{root}/namespaces/{namespace}/{resource}" + (f"/{name}" if name else "")


def _group_and_resource(kind: str) -> tuple[str, str]:
    parts = RESOURCES[kind].split("/")
    return (parts[1] if parts[0] == "apis" else ""), parts[-1]


def _refusal(method: str, path: str, answer: httpx.Response) -> ClusterRefusal:
    try:
        message = str(decode_json(answer.content, dict[str, Any]).get("message") or answer.reason_phrase)
    except msgspec.MsgspecError:
        message = answer.text[:500] or answer.reason_phrase
    return ClusterRefusal(answer.status_code, f"{method} {path}: {message}")
