"""Training runs whose processes are pods: a PaddleJob with our image, and a directory that a test can see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.clusters import Watched
from support.eventually import eventually
from support.kubernetes.full_cluster import FullCluster
from support.kubernetes.jobs_client import JobsClient, paddle_job

IMAGE = "clickline:0.1.0"
# What deploy/v1 asks of the operator's pod is asked of all: a user without rights, and nothing to write but /tmp.
_LEAST_RIGHTS = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "capabilities": {"drop": ["ALL"]},
}


def pod_template(*args: str, directory: Path, more: dict[str, Any] | None = None) -> dict[str, Any]:
    """A pod of one container of our image, which sees a directory of this machine under its own path."""
    container = {
        "name": "paddle",
        "image": IMAGE,
        "args": [*args],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        "securityContext": _LEAST_RIGHTS,
        "volumeMounts": [{"name": "test", "mountPath": str(directory)}, {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108
    }
    volumes = [
        {"name": "test", "hostPath": {"path": str(directory), "type": "Directory"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    spec = {"containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": 5}
    return {"spec": {**spec, **(more or {})}}


class PodRun(Watched):
    """A PaddleJob that trains, as the directory of the run and the API server show it."""

    def __init__(
        self, cluster: FullCluster, jobs: JobsClient, settings: dict[str, Any], *, rows: int = 0, **spec: Any
    ) -> None:
        """The directory above the one of `output` is what pods see; `spec` is more of the PaddleJob's."""
        output = Path(settings["output"])
        output.mkdir(parents=True, exist_ok=True)
        output.chmod(0o777)
        super().__init__(settings, rows=rows)
        self._cluster, self.jobs, self.name = cluster, jobs, settings["name"]
        self.process = None  # type: ignore[assignment]  (none of this machine)
        wanted = settings["cluster"]
        file, seen = str(self.file), output.parent
        roles: dict[str, Any] = {}
        if wanted.get("pservers"):
            roles["ps"] = {"replicas": wanted["pservers"], "template": pod_template("pserver", file, directory=seen)}
        verb = "trainer" if roles else "train"
        roles["worker"] = {"replicas": wanted["trainers"], "template": pod_template(verb, file, directory=seen)}
        jobs.create(paddle_job(self.name, **roles, **spec))

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

    def until_replaced(self, name: str, uid: str) -> None:
        """Wait for a pod of the same name that runs."""

        def replaced() -> bool:
            pod = self.jobs.pods(self.name).get(f"{self.name}-{name}")
            return pod is not None and pod["metadata"]["uid"] != uid and pod["status"]["phase"] == "Running"

        self.reaches(replaced, f"another pod {name} that runs")

    def ends(self, phase: str = "Completed") -> dict[str, Any]:
        """Wait for the end of the job; returns result.json."""

        def ended() -> str | None:
            now = self.jobs.status(self.name).get("phase")
            return now if now in ("Completed", "Failed") else None

        assert self.reaches(ended, "the end of the job") == phase, f"{self.jobs.status(self.name)}\n{self.last_lines()}"
        return self.result()

    def last_lines(self) -> str:
        """Of every pod and of the operator, for who reads of a failure."""
        texts = [f"-- status\n{self.jobs.status(self.name)}"]
        for pod in self.jobs.pods(self.name):
            log = self.jobs.kubectl("logs", "--tail=30", pod, check=False)
            texts.append(f"-- {pod}\n{log.stdout}{log.stderr}")
        texts.append(f"-- operator\n{self._cluster.operator_log()[-3000:]}")
        return "\n".join(texts)

    def close(self) -> None:
        self.jobs.delete("paddlejobs", self.name)
        eventually(lambda: not self.jobs.pods(self.name), what=f"no pods of {self.name}")
