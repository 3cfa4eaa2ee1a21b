"""Training runs whose processes are pods: a PaddleJob with our image, watched through the API server.

The job file and its data are in a ConfigMap. Trainers wait in the last file until the test lets them go, so that it
has all the time it needs, on a cluster of any speed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import yaml

from support.clusters import settings_for
from support.eventually import eventually
from support.kubernetes.api_access import http_client
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient, paddle_job
from support.kubernetes.pods.pod_access import in_pod, page_of
from support.kubernetes.pods.pod_data import PodData
from support.kubernetes.pods.pod_storage import CLAIM, ObjectStore, RunVolume

_METRICS_PORT = 9101
# What deploy/v1 asks of the operator's pod is asked of all: a user without rights, and nothing to write but /tmp.
_LEAST_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "capabilities": {"drop": ["ALL"]},
}
# The process is found by the words that started it. In those of this shell no space follows.
_SIGNAL = """
for place in /proc/[0-9]*; do
  case "$(tr '\\0' ' ' < "$place/cmdline")" in
    */python*\\ */bin/clickline\\ *) kill -s "$1" "${place#/proc/}" && echo "${place#/proc/}" ;;
  esac
done
"""
Storage = RunVolume | ObjectStore | None
"""Where the run is kept; in the pod of server 0 if None."""


class PodRun:
    """A PaddleJob of servers and workers that trains."""

    def __init__(
        self,
        cluster: FullCluster,
        jobs: JobsClient,
        name: str,
        data: PodData,
        *,
        storage: Storage = None,
        worker: dict[str, Any] | None = None,
        settings: dict[str, Any] | None = None,
        **spec: Any,
    ) -> None:
        """`worker` is more of that role, `settings` more of the job file, `spec` more of the PaddleJob."""
        self._cluster, self.jobs, self.name, self.data = cluster, jobs, name, data
        self.faults = 0
        """Injected so far."""
        self._let_go: set[str] = set()
        self._http = http_client(cluster.access)
        job = settings_for({"train": "", "test": ""}, data.directory, name, **(settings or {}))
        job |= data.settings
        job["output"] = storage.url if isinstance(storage, ObjectStore) else "/runs"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{name}-data"}}
        jobs.kubectl("apply", "-f", "-", given={**body, "data": {"job.yaml": yaml.safe_dump(job), **data.files()}})
        ps = {"replicas": 2, "template": self._template("pserver", storage)}
        workers = {"replicas": 2, "template": self._template("trainer", storage), **(worker or {})}
        jobs.create(paddle_job(name, ps=ps, worker=workers, cleanPodPolicy="Never", **spec))

    def _template(self, verb: str, storage: Storage) -> dict[str, Any]:
        in_claim = isinstance(storage, RunVolume)
        env: list[dict[str, Any]] = [{"name": "OMP_NUM_THREADS", "value": "1"}]
        if isinstance(storage, ObjectStore):
            env += [*storage.keys, *storage.environment]
        volumes: dict[str, dict[str, Any]] = {
            "data": {"configMap": {"name": f"{self.name}-data"}},
            "runs": {"persistentVolumeClaim": {"claimName": CLAIM}} if in_claim else {"emptyDir": {}},
            "tmp": {"emptyDir": {}},
        }
        container = {
            "name": "paddle",
            "image": self._cluster.image,
            "args": [verb, f"{PodData.SEEN_AT}/job.yaml"],
            "env": env,
            "resources": {"requests": {"cpu": "100m"}},
            "securityContext": _LEAST_RIGHTS,
            "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in volumes],
        }
        return {
            "spec": {
                "containers": [container],
                "volumes": [{"name": name, **source} for name, source in volumes.items()],
                "terminationGracePeriodSeconds": 5,
                # So that a command in the container may signal its process, which else is the first of its namespace.
                "shareProcessNamespace": True,
            }
        }

    def status(self) -> dict[str, Any]:
        """Of the run, as the coordinator tells it; nothing while it does not answer."""
        return page_of(self._http, self.jobs, f"{self.name}-ps-0", port=_METRICS_PORT, path="/status")

    def reaches(self, condition: Callable[[], Any], what: str, *, doing: Callable[[], object] | None = None) -> Any:
        try:
            return eventually(condition, what=what, doing=doing)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.last_lines()}") from None

    def cuts(self, least: int) -> None:
        """Wait until so many checkpoints were written."""
        self.reaches(lambda: (self.status().get("checkpoint") or {}).get("cuts", 0) >= least, f"{least} checkpoints")

    def member(self, name: str) -> dict[str, Any]:
        """Wait for a member that is alive, by role and rank."""

        def found() -> dict[str, Any] | None:
            members = self.status().get("members", [])
            return next((one for one in members if one["name"] == name and one["state"] != "dead"), None)

        return dict(self.reaches(found, f"{name} has joined"))

    def uids(self) -> dict[str, str]:
        """Of the pods that are not being deleted, by role and number."""
        pods = self.jobs.pods(self.name).values()
        return {
            pod["metadata"]["name"].removeprefix(f"{self.name}-"): pod["metadata"]["uid"]
            for pod in pods
            if "deletionTimestamp" not in pod["metadata"]
        }

    def delete_pod(self, name: str) -> str:
        """As `kubectl delete pod` does; returns its uid."""
        uid = self.uids()[name]
        self.jobs.delete("pods", f"{self.name}-{name}")
        self.faults += 1
        return uid

    def signal(self, name: str, number: str) -> bool:
        """Signal the process of a pod's container from beside it; whether there was one."""
        hit = bool(in_pod(self.jobs, f"{self.name}-{name}", "sh", "-c", _SIGNAL, "sh", number, check=False))
        self.faults += hit
        return hit

    def let_go(self, which: str = "worker-") -> None:
        """Open the gate in every worker that runs, or in one of them; one that comes later needs it as well."""
        for name, pod in self.jobs.pods(self.name).items():
            uid = pod["metadata"]["uid"]
            if uid in self._let_go or not name.startswith(f"{self.name}-{which}") or not _runs(pod):
                continue
            if self.jobs.kubectl("exec", name, "--", "touch", PodData.GATE, check=False).returncode == 0:
                self._let_go.add(uid)

    def ends(self) -> dict[str, Any]:
        """Let the run go and wait for the end of the job; what server 0 has left of its result."""

        def phase() -> str | None:
            now = self.jobs.status(self.name).get("phase")
            return now if now in ("Completed", "Failed") else None

        ended = self.reaches(phase, "the end of the job", doing=self.let_go)
        assert ended == "Completed", self.last_lines()
        return result_of(self.jobs, f"{self.name}-ps-0")

    def last_lines(self) -> str:
        """Of every pod and of the operator, for who reads of a failure."""
        texts = [f"-- job\n{self.jobs.status(self.name)}", f"-- run\n{self.status()}"]
        for pod in self.jobs.pods(self.name):
            log = self.jobs.kubectl("logs", "--tail=30", pod, check=False)
            texts.append(f"-- {pod}\n{log.stdout}{log.stderr}")
        texts.append(f"-- operator\n{self._cluster.operator_log()}")
        return "\n".join(texts)

    def close(self) -> None:
        self._http.close()
        self.jobs.delete("paddlejobs", self.name)
        eventually(lambda: not self.jobs.pods(self.name), what=f"no pods of {self.name}")
        self.jobs.delete("configmaps", f"{self.name}-data")


def _runs(pod: dict[str, Any]) -> bool:
    containers = pod["status"].get("containerStatuses") or ()
    return "deletionTimestamp" not in pod["metadata"] and any("running" in one["state"] for one in containers)


def result_of(jobs: JobsClient, pod: str) -> dict[str, Any]:
    """The result of a run, from the termination message of the pod that led it."""
    body = jobs.get("pods", pod)
    assert body is not None, f"{pod} is gone, and with it what it has left"
    ends = [one["state"].get("terminated") or {} for one in body["status"]["containerStatuses"]]
    message = next((one["message"] for one in ends if one.get("message")), "")
    assert message, f"{pod} has left no message: {body['status']}"
    return dict(json.loads(message)["result"])
