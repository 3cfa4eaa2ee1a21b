"""What the watches have told of jobs, pods and gangs. Nothing is read from the API server to look at a job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from clickline.operator.controller.work_queue import JobKey
from clickline.operator.job.fields import KubernetesObject
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.gang import PodGroup
from clickline.operator.objects.names import JOB_LABEL, owner_uid
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.reconcile.plan import Observed


def key_of(body: KubernetesObject) -> JobKey:
    """The job that an object is, or belongs to by its label."""
    metadata = body["metadata"]
    label = (metadata.get("labels") or {}).get(JOB_LABEL)
    is_job = body.get("kind") == "PaddleJob"
    return JobKey(metadata["namespace"], metadata["name"] if is_job or label is None else label)


class JobCache:
    """Objects by the job that owns them. Of one event loop."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, KubernetesObject] = {}
        self._pods: dict[str, dict[str, ObservedPod]] = {}
        self._pod_versions: dict[str, int] = {}
        self._groups: dict[str, PodGroup] = {}
        self._ports: dict[str, frozenset[int]] = {}

    def put_job(self, body: KubernetesObject) -> None:
        """Note a job, unless a later version of it is known: answers to requests may overtake the watch."""
        key = key_of(body)
        known = self._jobs.get(key)
        if known is None or _version(body) >= _version(known) or body["metadata"]["uid"] != known["metadata"]["uid"]:
            self._jobs[key] = body

    def drop_job(self, body: KubernetesObject) -> None:
        key, uid = key_of(body), body["metadata"]["uid"]
        known = self._jobs.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            del self._jobs[key]
        self._groups.pop(uid, None)
        self._ports.pop(uid, None)

    def put_pod(self, body: KubernetesObject) -> None:
        # By uid: the events of two pods that had the same name may come in any order.
        owner, uid = owner_uid(body), body["metadata"]["uid"]
        if owner and _version(body) >= self._pod_versions.get(uid, 0):
            self._pods.setdefault(owner, {})[uid] = ObservedPod.from_object(body)
            self._pod_versions[uid] = _version(body)

    def drop_pod(self, body: KubernetesObject) -> None:
        self.forget({body["metadata"]["uid"]})

    def put_group(self, body: KubernetesObject) -> None:
        self._groups[owner_uid(body)] = PodGroup.from_object(body)

    def drop_group(self, body: KubernetesObject) -> None:
        self._groups.pop(owner_uid(body), None)

    def job(self, key: JobKey) -> KubernetesObject | None:
        return self._jobs.get(key)

    def phases(self) -> Counter[str]:
        """How many jobs are in which phase."""
        return Counter((body.get("status") or {}).get("phase") or "New" for body in self._jobs.values())

    def job_keys(self) -> list[JobKey]:
        return list(self._jobs)

    def observed(self, job: PaddleJob) -> Observed:
        """A job with its objects."""
        taken = [ports for uid, ports in self._ports.items() if uid != job.uid]
        for body in self._jobs.values():
            if body["metadata"]["uid"] != job.uid:
                taken.append(frozenset(((body.get("status") or {}).get("portBlocks") or {}).values()))
        return Observed(
            job=job,
            pods=sorted(self._pods.get(job.uid, {}).values(), key=lambda pod: (pod.role, pod.index)),
            group=self._groups.get(job.uid),
            taken_ports=frozenset().union(*taken),
        )

    def reserve(self, uid: str, ports: Iterable[int]) -> None:
        """Note the ports of a job before its status says so, for jobs that are looked at meanwhile."""
        self._ports[uid] = frozenset(ports)

    def uids(self) -> set[str]:
        """Of all jobs and pods that are known."""
        return {body["metadata"]["uid"] for body in self._jobs.values()} | set(self._pod_versions)

    def forget(self, uids: set[str]) -> None:
        """Forget jobs and pods that are gone."""
        for body in [body for body in self._jobs.values() if body["metadata"]["uid"] in uids]:
            self.drop_job(body)
        for owner, pods in list(self._pods.items()):
            if left := {uid: pod for uid, pod in pods.items() if uid not in uids}:
                self._pods[owner] = left
            else:
                del self._pods[owner]
        for uid in uids:
            self._pod_versions.pop(uid, None)


def _version(body: KubernetesObject) -> int:
    return int(body["metadata"].get("resourceVersion") or 0)
