"""Random faults on a run in pods and on its operator, by a schedule that follows from a seed.

delete    a pod of the job is deleted, as by `kubectl delete pod` or by a node that is drained
kill      SIGKILL of a container's process, as by the kernel when there is no memory: it counts as a failure
stop      SIGSTOP of a container's process, and SIGCONT after a while, before or after the others have given it up
operator  the operator's pod that works is deleted without a word: the other one takes over when its Lease has expired

The run must end by itself, and its books must balance.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from support.kubernetes.full_cluster import OPERATOR, OPERATOR_NAMESPACE, FullCluster
from support.kubernetes.jobs_client import JobsClient
from support.kubernetes.pods.pod_runs import PodRun

KINDS = ("delete", "delete", "kill", "stop", "operator")
SETTINGS = {
    "train": {"batch_size": 25},
    "checkpoint": {"every_steps": 10, "keep": 2},
    "cluster": {
        "warn_after": 2,
        "evict_after": 5,
        "deadline": 5,
        "retry_for": 300,
        "start_timeout": 200,
        "piece_attempts": 1000,  # a piece is innocent, however often its reader is killed
        "piece_bytes": 0,
    },
}
"""Of the job: quick to give somebody up, patient with those who come back."""
_MOST_KILLS = 3
"""After each, the operator waits for twice as long before it replaces the pod."""


class RandomPodFaults:
    """Hurts a run so often."""

    def __init__(self, cluster: FullCluster, run: PodRun, *, seed: int) -> None:
        self._cluster, self._run, self._random = cluster, run, random.Random(seed)
        self._later: list[tuple[float, Callable[[], object]]] = []
        self.done: Counter[str] = Counter()
        """By kind and role, such as "kill ps"."""

    def hurt(self, faults: int) -> None:
        """Faults at random moments; then everything is mended."""
        kinds: dict[str, Callable[[str], bool]] = {"delete": self._delete, "kill": self._kill, "stop": self._stop}
        try:
            while self.done.total() < faults:
                self._pause(self._random.uniform(0.5, 4.0))
                kind, choice = self._random.choice(KINDS), self._random.random()
                if kind == "operator":
                    self.done[kind] += self._delete_operator()
                elif names := sorted(self._run.uids()):
                    name = names[int(choice * len(names))]
                    self.done[f"{kind} {name.partition('-')[0]}"] += kinds[kind](name)
        finally:
            for _, action in sorted(self._later, key=lambda due: due[0]):
                action()

    def _pause(self, seconds: float) -> None:
        """Do what is due meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for due in [due for due in self._later if due[0] <= time.monotonic()]:
                self._later.remove(due)
                due[1]()
            time.sleep(0.05)

    def _delete(self, name: str) -> bool:
        self._run.delete_pod(name)
        return True

    def _kill(self, name: str) -> bool:
        kills = sum(count for kind, count in self.done.items() if kind.startswith("kill"))
        return kills < _MOST_KILLS and self._run.signal(name, "KILL")

    def _stop(self, name: str) -> bool:
        if not self._run.signal(name, "STOP"):
            return False
        seconds = self._random.choice([0.5, 3.0, 8.0])
        self._later.append((time.monotonic() + seconds, lambda: self._run.signal(name, "CONT")))
        return True

    def _delete_operator(self) -> bool:
        if not self._cluster.own_operator:
            return False
        with JobsClient(self._cluster.access, OPERATOR_NAMESPACE) as client:
            lease = client.get("leases", OPERATOR) or {}
            holder = (lease.get("spec") or {}).get("holderIdentity") or ""
            pod = next((name for name in client.names("pods") if name in holder), None)
            if pod is None:
                return False
            client.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
        return True
