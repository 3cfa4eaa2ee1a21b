"""Waits until the pods of a job of plain YAML are there, and says to this one who it is and where the others are.

Servers wait for all servers, trainers for all trainers besides. What is missing is said while it is missing.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from clickline.errors import JobError, PeerError
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.launch.kubernetes.plain.plain_pods import LABELS, PlainPod, list_pods, own_pod
from clickline.launch.kubernetes.plain.plain_settings import PlainSettings
from clickline.launch.kubernetes.plain.rank_claims import RankClaims, ranks_by_order

_LOOK_EVERY = (0.5, 5.0)
_SAY_EVERY = 30.0
_ROLES = {"pserver": "PSERVER", "trainer": "TRAINER"}


@dataclass(frozen=True, slots=True)
class _Look:
    """The job's pods at one moment."""

    own: PlainPod
    rank: int | None
    servers: Mapping[int, PlainPod]
    """By rank."""
    trainers: list[PlainPod]
    trainer_ranks: Mapping[int, PlainPod]
    """By rank, for a trainer; empty for a server, which does not need them."""
    missing: list[str] = field(default_factory=list)


class PeerDiscovery:
    """Finds the other pods of a job through the API server."""

    def __init__(
        self, client: ClusterClient, settings: PlainSettings, *, timeout: float, say: Callable[[str], None]
    ) -> None:
        self._client, self._settings, self._timeout, self._say = client, settings, timeout, say
        self.namespace = settings.namespace or client.access.namespace
        self._claims = {
            role: RankClaims(client, self.namespace, job=settings.job, role=role) for role in ("pserver", "trainer")
        }
        self._may_claim: bool | None = None

    def find(self) -> dict[str, str]:
        """The environment for the pod's command, once all are there. Raises PeerError, which says who is missing."""
        until, pause, said, last_said = time.monotonic() + self._timeout, _LOOK_EVERY[0], "", 0.0
        while True:
            refused = False
            try:
                look = self._look()
                if self._is_over(look):
                    self._stay_idle()
                    return self.find()
                if not look.missing:
                    return self._environment(look)
                text = "waiting for " + "; ".join(look.missing)
            except ClusterRefusal as error:
                refused, text = True, self._explained(error)
            except PeerError as error:
                refused, text = True, str(error)
            if time.monotonic() >= until:
                raise PeerError(
                    text if refused else f"{text}; they were not there within {self._timeout:g} s (--timeout)"
                )
            if text != said or time.monotonic() - last_said > _SAY_EVERY:
                self._say(text)
                said, last_said = text, time.monotonic()
            time.sleep(min(pause, max(0.0, until - time.monotonic())))
            pause = min(pause * 1.5, _LOOK_EVERY[1])

    def _look(self) -> _Look:
        settings, client = self._settings, self._client
        if self._may_claim is None:
            self._may_claim = all(client.may(verb, "ConfigMap", self.namespace) for verb in ("create", "update", "get"))
            if not self._may_claim:
                self._say(
                    "this account may not write ConfigMaps, so ranks are by the age of pods: a pod that replaces "
                    "another may find its rank held by one that is still running; deploy/examples/plain/rbac.yaml has "
                    "the rights"
                )

        def pods_of(role: str) -> list[PlainPod]:
            return list_pods(client, self.namespace, settings, role)

        pods = {role: pods_of(role) for role in ("pserver", "trainer")}
        own = own_pod(pods[settings.role], settings)
        if self._may_claim:
            below = settings.pservers if settings.role == "pserver" else None
            rank = self._claims[settings.role].claim(own, lambda: pods_of(settings.role), below=below)
            servers = self._claims["pserver"].holders(pods_of("pserver")) if settings.pservers else {}
            trainers = self._claims["trainer"].holders(pods_of("trainer")) if settings.role == "trainer" else {}
        else:
            servers = ranks_by_order(pods["pserver"])
            trainers = ranks_by_order(pods["trainer"]) if settings.role == "trainer" else {}
            own_ranks = servers if settings.role == "pserver" else trainers
            rank = next((number for number, pod in own_ranks.items() if pod.uid == own.uid), None)
        look = _Look(own, rank, servers, pods["trainer"], trainers)
        return replace(look, missing=self._missing(look, pods["pserver"]))

    def _missing(self, look: _Look, all_servers: list[PlainPod]) -> list[str]:
        settings, missing = self._settings, []
        ready = [pod for rank, pod in look.servers.items() if rank < settings.pservers and pod.runs]
        if len(ready) < settings.pservers:
            missing.append(_sentence("pserver", settings.job, ready, settings.pservers, all_servers))
        if settings.role == "pserver" and (look.rank is None or look.rank >= settings.pservers):
            holders = ", ".join(pod.name for pod in look.servers.values())
            missing.append(
                f"a rank: {settings.pservers} servers are expected and {holders} are they already; more replicas need "
                "another PADDLE_PSERVERS_NUM in all pods"
            )
        if settings.role == "trainer":
            there = [
                pod
                for rank, pod in look.trainer_ranks.items()
                if rank < settings.trainers and (pod.runs or pod.succeeded)
            ]
            if len(there) < settings.trainers:
                missing.append(_sentence("trainer", settings.job, there, settings.trainers, look.trainers))
        elif not any(pod.counts for pod in look.trainers):
            # By whose owner this start of the job is told from an earlier one.
            missing.append(_sentence("trainer", settings.job, [], 1, look.trainers))
        return missing

    def _is_over(self, look: _Look) -> bool:
        """Whether this is a server that its ReplicaSet has started again after the run."""
        succeeded = [pod for pod in look.trainers if pod.succeeded and not pod.leaving]
        active = [pod for pod in look.trainers if pod.counts and not pod.succeeded]
        return self._settings.role == "pserver" and len(succeeded) >= self._settings.trainers and not active

    def _stay_idle(self) -> None:
        """A ReplicaSet starts a container again whenever it ends: better a server that waits than a crash loop."""
        self._say(
            f"all {self._settings.trainers} trainers of {self._settings.job!r} have succeeded: there is nothing to "
            "serve; this pod waits for another trainer Job, or to be deleted"
        )
        while True:
            time.sleep(_LOOK_EVERY[1])
            try:
                if not self._is_over(self._look()):
                    return
            except PeerError as error:
                self._say(str(error))

    def _environment(self, look: _Look) -> dict[str, str]:
        settings, rank = self._settings, look.rank
        hosts = [look.servers[number].ip for number in range(settings.pservers)]
        servers = [f"{_bracketed(host)}:{settings.port + number}" for number, host in enumerate(hosts)]
        trainers = [pod.ip for _, pod in sorted(look.trainer_ranks.items()) if pod.ip]
        env = {
            "CLICKLINE_ROLE": settings.role,
            "CLICKLINE_RANK": str(rank),
            "CLICKLINE_TRAINERS": str(settings.trainers),
            "CLICKLINE_LAUNCH": _launch(look.trainers),
            "TRAINING_ROLE": _ROLES[settings.role],
            "PADDLE_TRAINING_ROLE": _ROLES[settings.role],
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": str(settings.trainers),
            "PADDLE_PSERVERS_NUM": str(settings.pservers),
            "PADDLE_PORT": str(settings.port),
            "PADDLE_INIT_TRAINER_ID": str(rank),
            "PADDLE_INIT_NUM_GRADIENT_SERVERS": str(settings.trainers),
            "POD_IP": look.own.ip,
        }
        if settings.pservers:
            env |= {
                "CLICKLINE_PSERVERS": ",".join(f"tcp:{address}" for address in servers),
                "CLICKLINE_COORDINATOR_PORT": str(settings.port + settings.pservers),
                "PADDLE_PSERVERS": ",".join(servers),
                "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(servers),
                "PADDLE_INIT_PSERVERS": ",".join(hosts),
                "PADDLE_PSERVER_ID": str(rank),
            }
        else:  # trainers connect to each other
            ends = [f"{_bracketed(host)}:{settings.port + number}" for number, host in enumerate(trainers)]
            env["PADDLE_TRAINER_ENDPOINTS"] = ",".join(ends)
        if trainers:
            env["PADDLE_TRAINER_IPS"] = ",".join(trainers)
        return env

    def _explained(self, error: ClusterRefusal) -> str:
        if not error.is_forbidden:
            return str(error)
        named = re.search(r"system:serviceaccount:([^:\"]+):([^:\"]+)", str(error))
        account = f"{named[1]}:{named[2]}" if named else f"{self.namespace}:default"
        return (
            f"the API server does not let this pod see the others: {error}; pods need the verbs get and list of pods "
            f"in {self.namespace!r}: apply deploy/examples/plain/rbac.yaml and name its serviceAccountName in both "
            f"templates, or: kubectl create rolebinding default-view --clusterrole=view --serviceaccount={account} "
            f"--namespace={self.namespace}"
        )


def _sentence(role: str, job: str, ready: Collection[PlainPod], wanted: int, pods: list[PlainPod]) -> str:
    there = {pod.uid for pod in ready}
    others = [pod for pod in pods if pod.uid not in there and not (pod.succeeded and pod.leaving)]
    # One that runs and has no rank is about to claim it, or runs something else.
    words = [f"{pod.name} runs, and has not claimed a rank" if pod.runs else pod.in_words() for pod in others]
    more = f" ({'; '.join(words[:5])})" if words else ""
    return f"pods with label {LABELS[role]}={job}: {len(ready)} of {wanted} are running{more}"


def _launch(trainers: list[PlainPod]) -> str:
    """The Job that the trainers belong to: another Job is another start."""
    owners = [str(pod.owner["uid"]) for pod in trainers if pod.counts and pod.owner is not None]
    return owners[-1] if owners else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def check_servers(settings: PlainSettings) -> None:
    """Raise JobError if Clickline's own role is to run and there are no servers for it."""
    if settings.job_file and not settings.entry and not settings.pservers:
        raise JobError(
            "there are 0 parameter servers: without them trainers are ranks of `clickline train`; set ENTRY to "
            f"'clickline train {settings.job_file}' instead of naming the job's file"
        )
