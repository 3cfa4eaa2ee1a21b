"""What a test does to jobs in a cluster: apply them, look at their objects, and play the kubelet for their pods."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from typing import Any

from support.eventually import eventually
from support.kubernetes.api_access import http_client
from support.kubernetes.api_server import TestCluster

PADDLEJOBS = "/apis/batch.paddlepaddle.org/v1/namespaces/{}/paddlejobs"
_PATHS = {
    "paddlejobs": PADDLEJOBS,
    "leases": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "podgroups": "/apis/scheduling.volcano.sh/v1beta1/namespaces/{}/podgroups",
}


def role(replicas: int, **more: Any) -> dict[str, Any]:
    """A role with a pod template."""
    pod = more.pop("pod", {})
    container = {"name": "paddle", "image": "clickline:0.1.0", **more.pop("container", {})}
    return {"replicas": replicas, "template": {"spec": {"containers": [container], **pod}}, **more}


def paddle_job(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "batch.paddlepaddle.org/v1", "kind": "PaddleJob", "metadata": {"name": name}, "spec": spec}


class PodGoneError(Exception):
    """A pod has been deleted since the test looked."""


class JobsClient:
    """The objects of one namespace."""

    def __init__(self, cluster: TestCluster, namespace: str) -> None:
        self._cluster, self.namespace = cluster, namespace
        self.operator: subprocess.Popen[bytes] | None = None
        """While a test waits for something that it does, it must run."""
        self._http = http_client(cluster)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        self._http.post("/api/v1/namespaces", json=body)

    def __enter__(self) -> JobsClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def kubectl(
        self, *words: str, given: object = None, check: bool = True, namespaced: bool = True
    ) -> subprocess.CompletedProcess[str]:
        place = ["-n", self.namespace] if namespaced else []
        command = [self._cluster.kubectl, "--kubeconfig", str(self._cluster.kubeconfig), *place, *words]
        text = given if isinstance(given, str) or given is None else json.dumps(given)
        # A kubeconfig of somebody's own may name a program to log in with, which needs their home.
        own = {"HOME": str(self._cluster.directory), "PATH": os.environ["PATH"]}
        env = own if self._cluster.proxy is None else None
        ended = subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=env)
        assert not check or ended.returncode == 0, ended.stderr
        return ended

    def create(self, body: dict[str, Any]) -> dict[str, Any]:
        answer = self._http.post(self._path("paddlejobs"), json=body)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def refusal(self, body: dict[str, Any]) -> str:
        """The message with which the API server refuses a job."""
        answer = self._http.post(self._path("paddlejobs"), json=body)
        assert answer.status_code == 422, answer.text
        return str(answer.json()["message"])

    def get(self, resource: str, name: str) -> dict[str, Any] | None:
        answer = self._http.get(f"{self._path(resource)}/{name}")
        return dict(answer.json()) if answer.status_code == 200 else None

    def objects(self, resource: str, job: str) -> dict[str, dict[str, Any]]:
        """Objects of a job by name."""
        answer = self._http.get(
            self._path(resource), params={"labelSelector": f"batch.paddlepaddle.org/job={job}"}
        ).json()
        return {one["metadata"]["name"]: one for one in answer["items"]}

    def names(self, resource: str) -> list[str]:
        """Of all objects in the namespace."""
        return [one["metadata"]["name"] for one in self._http.get(self._path(resource)).json()["items"]]

    def pods(self, job: str) -> dict[str, dict[str, Any]]:
        return self.objects("pods", job)

    def events(self, job: str) -> list[tuple[str, str]]:
        query = {"fieldSelector": f"involvedObject.name={job},involvedObject.kind=PaddleJob"}
        items = self._http.get(self._path("events"), params=query).json()["items"]
        return [(one["reason"], one["message"]) for one in items]

    def patch(self, job: str, spec: dict[str, Any]) -> None:
        self._patch(f"{self._path('paddlejobs')}/{job}", {"spec": spec})

    def delete(self, resource: str, name: str) -> None:
        self._http.delete(f"{self._path(resource)}/{name}")

    def status(self, job: str) -> dict[str, Any]:
        return (self.get("paddlejobs", job) or {}).get("status") or {}

    def until(self, job: str, phase: str) -> dict[str, Any]:
        """The status of a job once it is in a phase."""
        self.wait(lambda: self.status(job).get("phase") == phase, f"phase {phase} of {job}")
        return self.status(job)

    def until_pods(self, job: str, *names: str) -> dict[str, dict[str, Any]]:
        """The pods of a job once they are these."""
        wanted = {f"{job}-{name}" for name in names}
        self.wait(lambda: set(self.pods(job)) == wanted, f"pods {names} of {job}")
        return self.pods(job)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        return eventually(condition, what=what, seconds=60, process=self.operator)

    def environment(self, pod: dict[str, Any]) -> dict[str, str]:
        """What the first container of a pod gets, as the kubelet would put it together."""
        container = pod["spec"]["containers"][0]
        values: dict[str, str] = {}
        for source in container.get("envFrom", []):
            if source.get("secretRef", {}).get("optional"):  # no test makes it
                continue
            name = source["configMapRef"]["name"]
            values |= self.wait(lambda name=name: self.get("configmaps", name), f"ConfigMap {name}")["data"]
        for variable in container["env"]:
            if "value" in variable:
                # References to variables that stand before, as the kubelet resolves them.
                known = dict(values)
                values[variable["name"]] = re.sub(
                    r"\$\((\w+)\)", lambda name, known=known: known.get(name[1], name[0]), variable["value"]
                )
            elif "fieldRef" in variable["valueFrom"]:
                values[variable["name"]] = pod["status"].get("podIP", "")
            else:
                secret = variable["valueFrom"]["secretKeyRef"]
                values[variable["name"]] = (self.get("secrets", secret["name"]) or {})["data"][secret["key"]]
        return values

    # The kubelet's part: it alone writes the status of a pod.

    def run_pods(self, job: str, *names: str, ready: bool = True, address: str = "") -> None:
        """Have pods run, each with an IP that no other had."""
        for name in names:
            pod = self._pod(f"{job}-{name}")
            self._pod_status(
                pod,
                phase="Running",
                podIP=address or _address(pod),
                containerStatuses=[_container(ready=ready, state={"running": {}})],
            )

    def succeed_pods(self, job: str, *names: str, message: str = "") -> None:
        """Have pods succeed; the message is what their container has left in its termination log."""
        for name in names:
            pod = self._pod(f"{job}-{name}")
            state = {"terminated": {"exitCode": 0, "reason": "Completed", "message": message}}
            self._pod_status(pod, phase="Succeeded", containerStatuses=[_container(state=state)])

    def fail_pod(
        self, job: str, name: str, *, exit_code: int = 1, reason: str = "Error", evicted: bool = False
    ) -> None:
        pod = self._pod(f"{job}-{name}")
        terminated = {"exitCode": exit_code, "reason": reason, "finishedAt": "2026-01-01T00:00:00Z"}
        more = {"reason": "Evicted", "message": "The node was low on resource: memory."} if evicted else {}
        states = [] if evicted else [_container(state={"terminated": terminated})]
        self._pod_status(pod, phase="Failed", containerStatuses=states, **more)

    def block_pod(self, job: str, name: str, *, reason: str, message: str = "") -> None:
        """Have a pod wait as the kubelet, or for Unschedulable the scheduler, leaves it that cannot start it."""
        pod = self._pod(f"{job}-{name}")
        if reason == "Unschedulable":
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            self._pod_status(pod, phase="Pending", conditions=[condition])
            return
        waiting = {"reason": reason, "message": message}
        container = {**_container(state={"waiting": waiting}), "name": pod["spec"]["containers"][0]["name"]}
        self._pod_status(pod, phase="Pending", containerStatuses=[container])

    def make_node(self, name: str, port: int) -> str:
        """A node whose kubelet, as far as logs go, listens on a port of this machine."""
        self._http.post("/api/v1/nodes", json={"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        self._patch(f"/api/v1/nodes/{name}/status", {"status": status})
        return name

    def bind_pod(self, name: str, node: str) -> None:
        """Place a pod on a node, as a scheduler would."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        answer = self._http.post(f"{self._path('pods')}/{name}/binding", json=body)
        assert answer.status_code == 201, answer.text

    def group_status(self, job: str, **status: Any) -> None:
        """What Volcano says of a PodGroup. Volcano itself cannot be had here, so the test plays it."""
        group = self.get("podgroups", job)
        assert group is not None
        self._patch(f"{self._path('podgroups')}/{job}/status", {"status": status})

    def _pod(self, name: str) -> dict[str, Any]:
        pod = self.get("pods", name)
        if pod is None:
            raise PodGoneError(name)
        return pod

    def _pod_status(self, pod: dict[str, Any], **status: Any) -> None:
        # With the uid: of a pod that has this name by now, another kubelet would have to tell.
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        self._patch(f"{self._path('pods')}/{metadata['name']}/status", body, gone=(404, 409))

    def _patch(self, path: str, body: dict[str, Any], *, gone: tuple[int, ...] = ()) -> None:
        answer = self._http.patch(path, json=body, headers={"Content-Type": "application/merge-patch+json"})
        if answer.status_code in gone:
            raise PodGoneError(answer.text)
        assert answer.status_code == 200, answer.text

    def _path(self, resource: str) -> str:
        return _PATHS.get(resource, f"/api/v1/namespaces/{{}}/{resource}").format(self.namespace)


def _container(*, state: dict[str, Any], ready: bool = False) -> dict[str, Any]:
    return {
        "name": "paddle",
        "image": "clickline:0.1.0",
        "imageID": "",
        "ready": ready,
        "restartCount": 0,
        "state": state,
    }


def _address(pod: dict[str, Any]) -> str:
    """An address of the benchmark network that is this very pod's."""
    number = int(pod["metadata"]["uid"].replace("-", "")[:8], 16)
    return f"198.18.{number % 250 + 1}.{number // 250 % 250 + 1}"
