"""A whole run on Kubernetes: a PaddleJob is made, followed to its end, and what came of it is read.

The operator of the cluster does the work. It goes on if this process is killed; Ctrl+C ends it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.errors import JobError, PeerError
from clickline.launch.job_records import JobHost, JobRecord, kept_record, new_job_name, new_record
from clickline.launch.kubernetes.cluster_access import ClusterAccess, find_cluster
from clickline.launch.kubernetes.cluster_checks import check_beginning, check_cluster, check_job
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.given_manifests import given_manifests
from clickline.launch.kubernetes.job_ending import end_job
from clickline.launch.kubernetes.job_manifests import JobManifests, job_manifests
from clickline.launch.kubernetes.job_monitor import JobMonitor, JobNotStarted
from clickline.launch.kubernetes.pod_logs import process_of
from clickline.launch.launchers import LaunchedResult, LaunchOptions
from clickline.operator.job.fields import KubernetesObject
from clickline.processes.termination_message import read_termination_message

_LEADERS = ("pserver.0", "trainer.0")
"""The first of these that a job has leads the run, and tells its result."""


class KubernetesLauncher:
    """Trains one job in pods."""

    def __init__(self, job: Job, options: LaunchOptions) -> None:
        if not options.manifests:
            check_job(job)
            check_beginning(job, options)
        self._job, self._options, self._watcher = job, options, options.watcher
        self.name = options.job or new_job_name()

    def run(self) -> LaunchedResult | None:
        """From the objects to the result. None if it cannot be read. Raises PeerError or JobFailed."""
        access = find_cluster()
        manifests = self._manifests(self._job.cluster.kubernetes.namespace or access.namespace)
        with ClusterClient(access) as client:
            check_cluster(client, manifests)
            for notice in manifests.notices:
                self._watcher.say(notice)
            record = self._record(access, manifests)
            with kept_record(record):
                pods = self._carried_out(client, manifests, Path(record.log))
        result = _result(pods, job=self.name)
        if result is None:
            self._watcher.say(f"the job has completed; its result is in {manifests.run_directory} of its pods")
        return result

    def _manifests(self, namespace: str) -> JobManifests:
        options = self._options
        if options.manifests:
            return given_manifests(options.manifests, self._job, name=self.name, namespace=namespace)
        return job_manifests(
            self._job,
            workspace=options.workspace,
            name=self.name,
            namespace=namespace,
            arguments=options.beginning,
        )

    def _record(self, access: ClusterAccess, manifests: JobManifests) -> JobRecord:
        place = JobHost(f"{manifests.namespace}/{manifests.name}", manifests.run_directory)
        record = new_record(
            self.name,
            name=self._job.name,
            launcher="kubernetes",
            run_directory=manifests.run_directory,
            hosts=[place],
        )
        record.cluster = access.server
        return record

    def _carried_out(self, client: ClusterClient, manifests: JobManifests, log: Path) -> list[KubernetesObject]:
        namespace, name = manifests.namespace, manifests.name
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as out:
            try:
                uid = self._make(client, manifests)
                self._options.on_start()
                self._watcher.begin(f"{name} in namespace {namespace}")
                patience = self._job.cluster.start_timeout
                monitor = JobMonitor(client, namespace, name, start_timeout=patience, watcher=self._watcher, log=out)
                return monitor.follow(uid)
            except JobNotStarted as error:
                # Nothing has run yet, so there is nothing to keep, and Kubernetes would try for ever.
                raise JobNotStarted(f"{error}; the job was {end_job(client, namespace, name)}") from None
            except KeyboardInterrupt:
                self._watcher.end()
                self._watcher.say(f"stopping {name}: its pods are deleted; those that save a checkpoint do so first")
                self._watcher.say(f"{name}: {end_job(client, namespace, name)}")
                raise
            finally:
                self._watcher.end()

    def _make(self, client: ClusterClient, manifests: JobManifests) -> str:
        """The job first, and its files as a part of it: pods wait for them, and nothing is left if we are killed."""
        made = client.create(manifests.paddle_job)
        uid = str(made["metadata"]["uid"])
        try:
            client.create(manifests.owned_files(uid))
        except PeerError:
            client.delete("PaddleJob", manifests.namespace, manifests.name, uid=uid)
            raise
        return uid


def planned_manifests(job: Job, *, workspace: Path) -> JobManifests:
    """What a launch would make. The namespace is that of the kubeconfig, if there is one."""
    check_job(job)
    namespace = job.cluster.kubernetes.namespace
    if not namespace:
        try:
            namespace = find_cluster().namespace
        except JobError:
            namespace = "default"
    return job_manifests(job, workspace=workspace, name=new_job_name(), namespace=namespace)


def _result(pods: list[KubernetesObject], *, job: str) -> LaunchedResult | None:
    """From what the pod of the process that led the run has left in its status."""
    by_process = {process_of(pod): pod for pod in pods}
    for leader in _LEADERS:
        if (pod := by_process.get(leader)) is None:
            continue
        result = read_termination_message(_termination_message(pod)).get("result")
        try:
            return LaunchedResult.read(json.dumps(result).encode(), host=pod["metadata"]["name"], job=job)
        except PeerError:
            return None
    return None


def _termination_message(pod: KubernetesObject) -> str:
    states: list[dict[str, Any]] = (pod.get("status") or {}).get("containerStatuses") or []
    ended = [(one.get("state") or {}).get("terminated") or {} for one in states]
    return next((str(one["message"]) for one in ended if one.get("message")), "")


def open_launcher(job: Job, options: LaunchOptions) -> KubernetesLauncher:
    return KubernetesLauncher(job, options)
