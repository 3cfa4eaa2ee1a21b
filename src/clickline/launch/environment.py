"""What a process is told by its environment: which one it is, where the others are, and their token.

Our own variables come first; those of the older stack are understood where they mean something here, so that pods made
for it run as they are. `variables.py` lists them all. Everything is read in one place, once, and never changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from clickline.compat.paddle_environment.ranks import first_number, number_of, own_host, rank_of, trainers_of
from clickline.config import Job
from clickline.errors import JobError
from clickline.net.addresses import address_of, addresses_of, host_and_port, tcp
from clickline.net.tokens import read_token

ROLES = {
    "pserver": "pserver",
    "trainer": "trainer",
    "worker": "trainer",
    "coordinator": "coordinator",
}
_DEFAULT_PORT = 6174
_COORDINATOR_OFFSET = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """A process's place among the others."""

    role: str
    """pserver, trainer or coordinator."""
    rank: int
    pservers: list[str]
    """Addresses, by rank."""
    trainers: int
    """How many trainers the job starts with; 0 where the environment does not say."""
    coordinator: str
    """Its address."""
    token: bytes = field(repr=False)
    bind: str
    """Address to listen on; empty for a trainer, which listens on none."""
    directory: Path
    """The run's directory; the current one where the environment does not say."""
    threads: int = 0
    """For dense maths; 0 where the environment does not say."""
    hosts_coordinator: bool = False
    """Whether the coordinator is to run in this process: in pserver 0, where nobody named one."""

    @property
    def name(self) -> str:
        return f"{self.role}.{self.rank}"

    @property
    def coordinator_bind(self) -> str:
        """Address for the coordinator to listen on, in the process that runs it."""
        if self.role == "coordinator":
            return self.bind
        if self.bind.startswith("unix:") or self.coordinator.startswith("unix:"):
            return self.coordinator
        return tcp(host_and_port(self.bind)[0], host_and_port(self.coordinator)[1], source="the coordinator's address")

    @property
    def overrides(self) -> list[str]:
        """What the environment knows better than the job file, as for --set."""
        counts = [f"cluster.pservers={len(self.pservers)}"]
        if self.trainers:
            counts.append(f"cluster.trainers={self.trainers}")
        return counts

    def within(self, job: Job) -> Place:
        """The place with what only the job knows."""
        said = self.directory != Path()
        return replace(
            self,
            trainers=self.trainers or job.cluster.trainers,
            directory=self.directory if said else Path(job.output) / job.name,
        )


def read_place(role: str | None = None, *, environ: Mapping[str, str] | None = None) -> Place:
    """This process's place. `role` is what the command line says; None leaves it to the environment."""
    env = os.environ if environ is None else environ
    role = _role(role, env)
    port = number_of(env, "PADDLE_PORT")
    pservers = _pservers(env, port)
    if not pservers:
        raise JobError(
            "No parameter servers are named: set CLICKLINE_PSERVERS to the addresses of all of them, "
            "such as tcp:10.0.0.1:6174,tcp:10.0.0.2:6174."
        )
    rank = 0 if role == "coordinator" else rank_of(role, env, pservers=pservers, port=port)
    named = env.get("CLICKLINE_COORDINATOR", "")
    if role == "coordinator" and not named:
        raise JobError(
            "A coordinator of its own must be named to all processes: set CLICKLINE_COORDINATOR to its address. "
            "Where it is not set, pserver 0 is the coordinator too."
        )
    coordinator = address_of(named, source="CLICKLINE_COORDINATOR") if named else _beside(pservers[0])
    listens_as = {"pserver": pservers[rank] if role == "pserver" else "", "coordinator": coordinator, "trainer": ""}
    return Place(
        role=role,
        rank=rank,
        pservers=pservers,
        trainers=trainers_of(env),
        coordinator=coordinator,
        token=read_token(env),
        bind=_bind(env, listens_as[role]),
        directory=Path(env.get("CLICKLINE_DIRECTORY", "")),
        threads=first_number(env, "CLICKLINE_THREADS", "CPU_NUM", "NUM_THREADS") or 0,
        hosts_coordinator=role == "pserver" and rank == 0 and not named,
    )


def torch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What torch.distributed wants to know, from the older names of the same; empty if it knows, or they do not say."""
    if "RANK" in environ or not environ.get("PADDLE_TRAINER_ENDPOINTS"):
        return {}
    endpoints = addresses_of(environ["PADDLE_TRAINER_ENDPOINTS"], source="PADDLE_TRAINER_ENDPOINTS")
    host, port = host_and_port(endpoints[0])
    return {
        "RANK": str(rank_of("trainer", environ, pservers=[], port=None)),
        "WORLD_SIZE": str(len(endpoints)),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }


def _role(role: str | None, env: Mapping[str, str]) -> str:
    for name in ("CLICKLINE_ROLE", "TRAINING_ROLE", "PADDLE_TRAINING_ROLE"):
        said = env.get(name, "").strip().lower()
        if not said:
            continue
        if said not in ROLES:
            known = ", ".join(ROLES)
            raise JobError(f"{name}: '{env[name]}' is no role here; known roles: {known}.")
        if role is not None and ROLES[said] != role:
            raise JobError(f"{name} says that this is a {ROLES[said]}, the command line that it is a {role}.")
        return ROLES[said]
    if role is None:
        raise JobError("The environment names no role: set CLICKLINE_ROLE to pserver, trainer or coordinator.")
    return role


def _pservers(env: Mapping[str, str], port: int | None) -> list[str]:
    for name in ("CLICKLINE_PSERVERS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVERS"):
        if text := env.get(name, ""):
            older = name == "PADDLE_PSERVERS"
            found = addresses_of(text, source=name, port=(port or _DEFAULT_PORT) if older else None)
            expected = None if name == "CLICKLINE_PSERVERS" else number_of(env, "PADDLE_PSERVERS_NUM")
            if expected is not None and expected != len(found):
                raise JobError(f"{name} names {len(found)} servers, PADDLE_PSERVERS_NUM says {expected}.")
            return found
    return []


def _beside(pserver: str) -> str:
    if pserver.startswith("unix:"):
        return f"{pserver}.coordinator"
    host, port = host_and_port(pserver)
    source = f"CLICKLINE_COORDINATOR is not set, so it is pserver 0's port {port} + {_COORDINATOR_OFFSET}"
    return tcp(host, port + _COORDINATOR_OFFSET, source=source)


def _bind(env: Mapping[str, str], known_as: str) -> str:
    if not known_as:
        return ""
    said = env.get("CLICKLINE_BIND", "")
    if known_as.startswith("unix:"):
        return address_of(said, source="CLICKLINE_BIND") if said else known_as
    host, port = host_and_port(known_as)
    if said:
        return address_of(said, source="CLICKLINE_BIND", port=port)
    # The name that others know us by may be a service's, whose address no interface of ours has.
    return tcp(own_host(env) or host, port, source="POD_IP")
