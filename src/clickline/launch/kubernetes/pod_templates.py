"""Templates of a job's pods: image, command, environment, volumes and resources of each role."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clickline.config import Job
from clickline.config.kubernetes import PodResources
from clickline.launch.kubernetes.job_files import JOB_DIRECTORY
from clickline.operator.job.fields import KubernetesObject


class PodTemplates:
    """Templates of the pods of one start of a job, which differ by command and resources."""

    def __init__(self, job: Job, *, launch: str, files: str, items: Sequence[KubernetesObject], private: str) -> None:
        """`files` and `items` are the ConfigMap of the job's files; `private` is a directory that ends with its pod."""
        self._options = options = job.cluster.kubernetes
        # Of this start: a server that is replaced finds by it that its options were carried out before.
        own = {"CLICKLINE_LAUNCH": launch, "PYTHONUNBUFFERED": "1"}
        if job.cluster.threads:
            own["CLICKLINE_THREADS"] = str(job.cluster.threads)
        self._env: list[KubernetesObject] = [
            {"name": key, "value": value} for key, value in (own | options.environment).items()
        ]
        self._env += [
            {"name": one.variable, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
            for one in options.secrets
        ]
        self._volumes: list[KubernetesObject] = [
            {"name": "job", "configMap": {"name": files, "items": list(items)}},
        ]
        self._mounts: list[KubernetesObject] = [{"name": "job", "mountPath": JOB_DIRECTORY}]
        self._add_claims()
        # Pods may run as a user without a home, and parts of PyTorch want to write somewhere.
        empty = {"runs": private, "tmp": "/tmp"} if private else {"tmp": "/tmp"}  # noqa: S108  (of a container)
        for name, path in empty.items():
            self._volumes.append({"name": name, "emptyDir": {}})
            self._mounts.append({"name": name, "mountPath": path})

    def role(self, replicas: int, arguments: list[str], resources: PodResources) -> KubernetesObject:
        """A role of a PaddleJob."""
        options = self._options
        container: KubernetesObject = {
            "name": "clickline",
            "image": options.image,
            "command": ["clickline"],
            "args": arguments,
            "workingDir": JOB_DIRECTORY,
            "env": self._env,
            "volumeMounts": self._mounts,
            **_resources(resources),
        }
        spec: KubernetesObject = {"containers": [container], "volumes": self._volumes}
        if options.service_account:
            spec["serviceAccountName"] = options.service_account
        if options.pull_secret:
            spec["imagePullSecrets"] = [{"name": options.pull_secret}]
        # A queue of Volcano has the class in its PodGroup.
        if options.priority_class and not options.queue:
            spec["priorityClassName"] = options.priority_class
        return {"replicas": replicas, "template": {"spec": spec}}

    def _add_claims(self) -> None:
        """Mount the volumes of the job. A claim is named once, however many paths of it are mounted."""
        volumes = self._options.volumes
        claims = list(dict.fromkeys(volume.claim for volume in volumes))
        self._volumes += [
            {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
            for number, claim in enumerate(claims)
        ]
        for volume in volumes:
            read_only = {"readOnly": True} if volume.read_only else {}
            self._mounts.append({"name": f"claim-{claims.index(volume.claim)}", "mountPath": volume.path, **read_only})


def _resources(resources: PodResources) -> dict[str, Any]:
    requests: dict[str, Any] = {"cpu": resources.cpu, "memory": resources.memory}
    # No limit on processors: a pod that is throttled keeps all others waiting at the next barrier.
    limits: dict[str, Any] = {"memory": resources.memory}
    if resources.gpus:
        limits["nvidia.com/gpu"] = resources.gpus
    both = {"requests": requests, "limits": limits}
    kept = {name: {key: value for key, value in part.items() if value} for name, part in both.items()}
    kept = {name: part for name, part in kept.items() if part}
    return {"resources": kept} if kept else {}
