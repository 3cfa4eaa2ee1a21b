"""Which pod has which rank: a ConfigMap for each role, in which a pod takes the lowest rank that no other holds.

Pods of a ReplicaSet or Job have random names, and one that replaces another has another name and IP: by order alone it
would take the rank of a pod that is still running. A ConfigMap is changed by one pod at a time (the API server refuses
a change of what has changed meanwhile), so no two hold one rank, and a pod that is restarted finds its own again.

Who may only read, as with `--clusterrole=view`, has ranks by order.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence

from clickline.errors import JobError
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.launch.kubernetes.plain.plain_pods import PlainPod
from clickline.operator.job.fields import KubernetesObject

_TRIES = 100


class RankClaims:
    """The ranks of one role of a job."""

    def __init__(self, client: ClusterClient, namespace: str, *, job: str, role: str) -> None:
        self._client, self._namespace, self._job, self._role = client, namespace, job, role
        self.name = _object_name(f"{job}-{role}-ranks")

    def holders(self, pods: Sequence[PlainPod]) -> dict[int, PlainPod]:
        """The pods by rank, as far as ranks are claimed by pods that are there."""
        body = self._client.find("ConfigMap", self._namespace, self.name)
        return _holders(body, pods)

    def claim(self, own: PlainPod, pods: Callable[[], Sequence[PlainPod]], *, below: int | None) -> int | None:
        """The rank of this pod, claimed if it has none yet; None while all ranks `below` are held by others."""
        for _ in range(_TRIES):
            body = self._client.find("ConfigMap", self._namespace, self.name)
            # The pods after the claims: a pod that has claimed a rank is in a list that is read later.
            held = _holders(body, pods())
            for rank, pod in held.items():
                if pod.uid == own.uid:
                    return rank
            rank = next(number for number in range(len(held) + 1) if number not in held)
            if below is not None and rank >= below:
                return None
            try:
                self._write(body, rank, own)
            except ClusterRefusal as error:
                if not error.is_conflict:
                    raise
                continue  # another pod was faster
            return rank
        raise JobError(f"ConfigMap {self.name}: it has changed {_TRIES} times while this pod was to claim a rank in it")

    def _write(self, body: KubernetesObject | None, rank: int, own: PlainPod) -> None:
        value = f"{own.name}/{own.uid}"
        if body is not None:
            self._client.replace({**body, "kind": "ConfigMap", "data": {**(body.get("data") or {}), str(rank): value}})
            return
        metadata: KubernetesObject = {"name": self.name, "namespace": self._namespace}
        if own.owner is not None:  # it is collected with who made the pods
            keys = ("apiVersion", "kind", "name", "uid")
            metadata["ownerReferences"] = [{key: own.owner[key] for key in keys}]
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {str(rank): value}}
        self._client.create(made)


def ranks_by_order(pods: Sequence[PlainPod]) -> dict[int, PlainPod]:
    """The pods by rank where nothing can be claimed: as they were made."""
    return dict(enumerate(pod for pod in pods if pod.counts))


def _holders(body: KubernetesObject | None, pods: Sequence[PlainPod]) -> dict[int, PlainPod]:
    by_uid = {pod.uid: pod for pod in pods if pod.counts}
    held: dict[int, PlainPod] = {}
    for rank, value in ((body or {}).get("data") or {}).items():
        pod = by_uid.get(str(value).rpartition("/")[2])
        if rank.isdigit() and pod is not None:
            held[int(rank)] = pod
    return held


def _object_name(text: str) -> str:
    """A name that Kubernetes takes; labels may hold what names may not."""
    name = re.sub(r"[^a-z0-9.-]", "-", text.lower())
    return name if name == text else f"{name}-{zlib.crc32(text.encode()):08x}"
