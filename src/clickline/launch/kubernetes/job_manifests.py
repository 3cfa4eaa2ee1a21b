"""The objects of a job on Kubernetes: a PaddleJob with a pod for each server and trainer, and its files in a ConfigMap.

No secret is in them: pods refer to Secrets that are there, and the token of the job is one that the operator makes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from clickline.config import Job
from clickline.config.kubernetes import KubernetesPods
from clickline.config.run_location import is_elsewhere
from clickline.launch.kubernetes.job_files import JOB_DIRECTORY, JOB_FILE, job_files
from clickline.launch.kubernetes.pod_templates import PodTemplates
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import API_VERSION, KIND
from clickline.operator.objects.gang import KUEUE_QUEUE

RUN_LABEL, JOB_LABEL = "clickline.dev/run", "clickline.dev/job"
"""The name of the run, and of this start of it."""
_RUNS = "/runs"
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
    output, shared = output_in_pods(job)
    in_pods = job.model_copy(update={"output": output})
    resource = resource_name(job.name, name)
    labels = {RUN_LABEL: label_value(job.name), JOB_LABEL: name}
    content, items = job_files(in_pods, workspace)
    files = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{resource}-files", "namespace": namespace, "labels": labels},
        **content,
    }
    pods = PodTemplates(job, launch=name, files=f"{resource}-files", items=items, private="" if shared else output)
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


def _spec(job: Job, options: KubernetesPods, pods: PodTemplates, arguments: Sequence[str]) -> KubernetesObject:
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
        # All servers are told how the run begins: pods of a role have one template, and only server 0 takes notice.
        spec["ps"] = pods.role(job.cluster.pservers, ["pserver", file, *arguments], options.pserver)
        spec["worker"] = pods.role(job.cluster.trainers, ["trainer", file], options.trainer)
    return spec


def output_in_pods(job: Job) -> tuple[str, bool]:
    """`output` as pods have it, and whether it outlives them."""
    if is_elsewhere(job.output):
        return job.output, True
    output = job.output if job.output.startswith("/") else _RUNS
    writable = [volume.path for volume in job.cluster.kubernetes.volumes if not volume.read_only]
    return output, any(is_below(output, path) for path in writable)


def _notices(job: Job, options: KubernetesPods, output: str, *, shared: bool) -> list[str]:
    notices = []
    if not shared:
        where = "server 0" if job.resolved_strategy not in ("single", "collective") else "worker 0"
        notices.append(
            f"output: the run will be in {output} of the pod of {where} alone, and is gone with it: to keep it, let "
            "output be in a volume of cluster.kubernetes.volumes, or a URL"
        )
    paths = [path for path in (*job.data.train, *job.data.valid, *job.data.test) if not is_elsewhere(path)]
    strangers = [path for path in paths if not any(is_below(path, volume.path) for volume in options.volumes)]
    if strangers:
        notices.append(
            f"data: {strangers[0]} is in no volume of cluster.kubernetes.volumes: it must be in the image of the pods"
        )
    return notices


def is_below(path: str, directory: str) -> bool:
    """Whether a path of pods is in a directory, or is it."""
    return PurePosixPath(path).is_relative_to(PurePosixPath(directory))


def _queue_label(options: KubernetesPods) -> dict[str, str]:
    return {KUEUE_QUEUE: options.kueue_queue} if options.kueue_queue else {}


def label_value(text: str) -> str:
    """A label's value: not every name of a run is one."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "run"
