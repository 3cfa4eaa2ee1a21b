"""The objects of a job on Kubernetes: a PaddleJob with a pod for each server and trainer, and its files in a ConfigMap.

No secret is in them: pods refer to Secrets that are there, and the token of the job is one that the operator makes.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any

from clickline.config import Job
from clickline.config.kubernetes import KubernetesPods, PodResources
from clickline.config.run_location import is_elsewhere
from clickline.errors import JobError
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import API_VERSION, KIND
from clickline.operator.objects.gang import KUEUE_QUEUE
from clickline.train.run_files.own_code import own_files

MOST_BYTES = 900_000
"""Of a ConfigMap, which may have 1 MiB with all that belongs to it."""
RUN_LABEL, JOB_LABEL = "clickline.dev/run", "clickline.dev/job"
"""The name of the run, and of this start of it."""
JOB_DIRECTORY, JOB_FILE, RUNS = "/job", "job.yaml", "/runs"
_LONGEST_NAME = 40
"""Of a PaddleJob: names of pods and services, which must have at most 63 characters, begin with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobManifests:
    """What is made in the cluster for one job."""

    name: str
    namespace: str
    paddle_job: KubernetesObject
    files: KubernetesObject
    """The ConfigMap."""
    run_directory: str
    """In pods."""
    shared: bool
    """Whether the run outlives its pods: in a volume or at a URL."""
    notices: Sequence[str] = ()

    def documents(self) -> list[KubernetesObject]:
        return [self.files, self.paddle_job]

    def owned_files(self, uid: str) -> KubernetesObject:
        """The ConfigMap as a part of the PaddleJob, with which it is collected."""
        owner = {"apiVersion": API_VERSION, "kind": KIND, "name": self.name, "uid": uid}
        return {**self.files, "metadata": {**self.files["metadata"], "ownerReferences": [owner]}}


def resource_name(run: str, job: str) -> str:
    """The name of the PaddleJob of a run: another one for each start."""
    words = re.sub(r"[^a-z0-9-]+", "-", run.lower()).strip("-")[: _LONGEST_NAME - 5].strip("-")
    # A name may not begin with a digit where it becomes that of a service.
    return f"{words if words[:1].isalpha() else f'run-{words}'.strip('-')}-{job.rpartition('-')[2].lower()}"


def job_manifests(
    job: Job, *, workspace: Path, name: str, namespace: str, arguments: Sequence[str] = ()
) -> JobManifests:
    """The objects for a job. `name` is that of this start of it. Raises JobError."""
    options = job.cluster.kubernetes
    output, shared = _output(job, options)
    in_pods = job.model_copy(update={"output": output})
    resource = resource_name(job.name, name)
    labels = {RUN_LABEL: label_value(job.name), JOB_LABEL: name}
    content, items = _files(in_pods, workspace)
    files = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{resource}-files", "namespace": namespace, "labels": labels},
        **content,
    }
    volumes: list[KubernetesObject] = [{"name": "job", "configMap": {"name": f"{resource}-files", "items": items}}]
    mounts: list[KubernetesObject] = [{"name": "job", "mountPath": JOB_DIRECTORY}]
    claims = list(dict.fromkeys(volume.claim for volume in options.volumes))
    volumes += [
        {"name": f"claim-{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(claims)
    ]
    for volume in options.volumes:
        read_only = {"readOnly": True} if volume.read_only else {}
        mounts.append({"name": f"claim-{claims.index(volume.claim)}", "mountPath": volume.path, **read_only})
    if not shared:
        volumes.append({"name": "runs", "emptyDir": {}})
        mounts.append({"name": "runs", "mountPath": output})
    # Pods may run as a user without a home, and parts of PyTorch want to write somewhere.
    volumes.append({"name": "tmp", "emptyDir": {}})
    mounts.append({"name": "tmp", "mountPath": "/tmp"})  # noqa: S108  (of a container)
    pods = _Pods(job, options, name=name, volumes=volumes, mounts=mounts)
    return JobManifests(
        name=resource,
        namespace=namespace,
        paddle_job={
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": resource, "namespace": namespace, "labels": labels | _queue_label(options)},
            "spec": _spec(job, options, pods, arguments),
        },
        files=files,
        run_directory=f"{output.rstrip('/')}/{job.name}",
        shared=shared,
        notices=_notices(job, options, output, shared=shared),
    )


def _spec(job: Job, options: KubernetesPods, pods: _Pods, arguments: Sequence[str]) -> KubernetesObject:
    spec: KubernetesObject = {
        # The result is read from the status of the pods that have ended.
        "cleanPodPolicy": "Never",
        "intranet": options.intranet,
        "backoffLimit": job.cluster.restarts,
        "ttlSecondsAfterFinished": options.keep,
    }
    policy = {"queue": options.queue, "priorityClass": options.priority_class}
    if options.queue:
        spec["schedulingPolicy"] = {key: value for key, value in policy.items() if value}
    file = f"{JOB_DIRECTORY}/{JOB_FILE}"
    if job.resolved_strategy in ("single", "collective"):
        spec["worker"] = pods.role(job.cluster.trainers, ["train", file, *arguments], options.trainer)
    else:
        spec["ps"] = pods.role(job.cluster.pservers, ["pserver", file], options.pserver)
        spec["worker"] = pods.role(job.cluster.trainers, ["trainer", file], options.trainer)
    return spec


class _Pods:
    """Templates of pods, which differ by command and resources."""

    def __init__(
        self,
        job: Job,
        options: KubernetesPods,
        *,
        name: str,
        volumes: list[KubernetesObject],
        mounts: list[KubernetesObject],
    ) -> None:
        self._options, self._volumes, self._mounts = options, volumes, mounts
        own = {"CLICKLINE_LAUNCH": name, "PYTHONUNBUFFERED": "1"}
        if job.cluster.threads:
            own["CLICKLINE_THREADS"] = str(job.cluster.threads)
        self._env: list[KubernetesObject] = [
            {"name": key, "value": value} for key, value in (own | options.environment).items()
        ]
        self._env += [
            {"name": one.variable, "valueFrom": {"secretKeyRef": {"name": one.secret, "key": one.key}}}
            for one in options.secrets
        ]

    def role(self, replicas: int, arguments: list[str], resources: PodResources) -> KubernetesObject:
        options = self._options
        container: KubernetesObject = {
            "name": "clickline",
            "image": image_of(options),
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
        if options.priority_class and not options.queue:
            spec["priorityClassName"] = options.priority_class
        return {"replicas": replicas, "template": {"spec": spec}}


def image_of(options: KubernetesPods) -> str:
    return options.image or f"clickline:{version('clickline')}"


def _resources(resources: PodResources) -> dict[str, Any]:
    requests: dict[str, Any] = {"cpu": resources.cpu, "memory": resources.memory}
    limits: dict[str, Any] = {"memory": resources.memory}
    if resources.gpus:
        limits["nvidia.com/gpu"] = resources.gpus
    both = {"requests": requests, "limits": limits}
    kept = {name: {key: value for key, value in part.items() if value} for name, part in both.items()}
    kept = {name: part for name, part in kept.items() if part}
    return {"resources": kept} if kept else {}


def _output(job: Job, options: KubernetesPods) -> tuple[str, bool]:
    """`output` as pods have it, and whether it outlives them."""
    if is_elsewhere(job.output):
        return job.output, True
    output = job.output if job.output.startswith("/") else RUNS
    return output, any(_is_below(output, volume.path) and not volume.read_only for volume in options.volumes)


def _files(job: Job, workspace: Path) -> tuple[KubernetesObject, list[KubernetesObject]]:
    """The ConfigMap's content, and where each entry is mounted: the job, and the user's own code that it names."""
    contents = {JOB_FILE: json.dumps(job.model_dump(mode="json", exclude_unset=True), indent=1).encode()}
    for place in own_files(job):
        path = PurePosixPath(place)
        if path.is_absolute() or ".." in path.parts:
            raise JobError(
                f"{place!r} is not below the workspace {workspace}, whose files pods get: write it from there, or put "
                "it into the image and name it as module:Class"
            )
        try:
            contents[str(path)] = (workspace / path).read_bytes()
        except OSError as error:
            raise JobError(f"{workspace / path}: cannot be read: {error.strerror}") from None
    size = sum(map(len, contents.values()))
    if size > MOST_BYTES:
        raise JobError(
            f"the job and the code that it names have {size / 1e6:.1f} MB, and a ConfigMap takes "
            f"{MOST_BYTES / 1e6:.1f}: put the code into the image, or into a volume of cluster.kubernetes.volumes"
        )
    texts, others, items = {}, {}, []
    for number, (name, content) in enumerate(contents.items()):
        key = JOB_FILE if number == 0 else f"file-{number}"  # entries may not have a slash in their names
        items.append({"key": key, "path": name})
        try:
            texts[key] = content.decode()
        except UnicodeDecodeError:
            others[key] = b64encode(content).decode()
    return {"data": texts} | ({"binaryData": others} if others else {}), items


def _notices(job: Job, options: KubernetesPods, output: str, *, shared: bool) -> list[str]:
    notices = []
    if not shared:
        where = "server 0" if job.resolved_strategy not in ("single", "collective") else "worker 0"
        notices.append(
            f"output: the run will be in {output} of the pod of {where} alone, and is gone with it: to keep it, let "
            "output be in a volume of cluster.kubernetes.volumes, or a URL"
        )
    paths = [path for path in (*job.data.train, *job.data.valid, *job.data.test) if not is_elsewhere(path)]
    strangers = [path for path in paths if not any(_is_below(path, volume.path) for volume in options.volumes)]
    if strangers:
        notices.append(
            f"data: {strangers[0]} is in no volume of cluster.kubernetes.volumes: it must be in the image of the pods"
        )
    return notices


def _is_below(path: str, directory: str) -> bool:
    return PurePosixPath(path).is_relative_to(PurePosixPath(directory))


def _queue_label(options: KubernetesPods) -> dict[str, str]:
    return {KUEUE_QUEUE: options.kueue_queue} if options.kueue_queue else {}


def label_value(text: str) -> str:
    """A label's value: not every name of a run is one."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "run"
