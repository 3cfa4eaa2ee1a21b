"""A process's environment: its role and rank, the addresses of the others, and the token they share.

Our own variables come first; PaddlePaddle's are understood where they mean something here, so that pods made for it, by
paddle-operator say, run as they are. `variables.py` lists them all. Everything is read here, once, and never changes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clickline.compat.paddle_environment.ranks import first_number, number_of, own_host, rank_of, trainers_of
from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.errors import JobError
from clickline.net.addresses import address_of, addresses_of, host_and_port, tcp
from clickline.net.tokens import read_token
from clickline.ps.process_role import ProcessRole

ROLES = {
    "pserver": "pserver",
    "trainer": "trainer",
    "worker": "trainer",
    "coordinator": "coordinator",
}
_DEFAULT_PORT = 6174
_COORDINATOR_OFFSET = 1000
_DIRECTORY = "CLICKLINE_DIRECTORY"


def read_role(role: str | None = None, *, environ: Mapping[str, str] | None = None) -> ProcessRole:
    """The role of this process. `role` is what the command line says; None leaves it to the environment."""
    env = os.environ if environ is None else environ
    role = _role(role, env)
    port = number_of(env, "PADDLE_PORT")
    pservers = _pservers(env, port)
    if not pservers:
        raise JobError(
            "no parameter servers are named: set CLICKLINE_PSERVERS to the addresses of all of them, "
            "such as tcp:10.0.0.1:6174,tcp:10.0.0.2:6174"
        )
    rank = 0 if role == "coordinator" else rank_of(role, env, pservers=pservers, port=port)
    named = env.get("CLICKLINE_COORDINATOR", "")
    if role == "coordinator" and not named:
        raise JobError(
            "a coordinator of its own must be named to all processes: set CLICKLINE_COORDINATOR to its address; "
            "where it is not set, pserver 0 is the coordinator too"
        )
    # Every process derives the same address from the same list, so without a name nothing has to be agreed on.
    coordinator = address_of(named, source="CLICKLINE_COORDINATOR") if named else _beside(pservers[0], env)
    listens_as = {"pserver": pservers[rank] if role == "pserver" else "", "coordinator": coordinator, "trainer": ""}
    return ProcessRole(
        role=role,
        rank=rank,
        pservers=pservers,
        trainers=trainers_of(env),
        coordinator=coordinator,
        token=read_token(env),
        bind=_bind(env, listens_as[role]),
        directory=Path(env.get(_DIRECTORY, "")),
        node=number_of(env, "CLICKLINE_NODE") or 0,
        launch=env.get("CLICKLINE_LAUNCH", ""),
        threads=first_number(env, "CLICKLINE_THREADS", "CPU_NUM", "NUM_THREADS") or 0,
        hosts_coordinator=role == "pserver" and rank == 0 and not named,
    )


def torch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables of torch.distributed, from PaddlePaddle's for the same; empty if they are set, or those are not."""
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


def run_directory_here(job: Job, environ: Mapping[str, str]) -> Path:
    """The run's directory for a rank: that of the job unless the environment names it. It is on the host of rank 0."""
    return Path(environ.get(_DIRECTORY) or run_directory_of(job))


def _role(role: str | None, env: Mapping[str, str]) -> str:
    for name in ("CLICKLINE_ROLE", "TRAINING_ROLE", "PADDLE_TRAINING_ROLE"):
        given = env.get(name, "").strip().lower()
        if not given:
            continue
        if given not in ROLES:
            raise JobError(f"{name}: {env[name]!r} is not a role; known roles: {', '.join(ROLES)}")
        if role is not None and ROLES[given] != role:
            raise JobError(f"{name} says that this is a {ROLES[given]}, the command line that it is a {role}")
        return ROLES[given]
    if role is None:
        raise JobError("the environment names no role: set CLICKLINE_ROLE to pserver, trainer or coordinator")
    return role


def _pservers(env: Mapping[str, str], port: int | None) -> list[str]:
    for name in ("CLICKLINE_PSERVERS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVERS"):
        if text := env.get(name, ""):
            # Only this one may hold hosts alone, whose port is a variable of its own.
            without_ports = name == "PADDLE_PSERVERS"
            addresses = addresses_of(text, source=name, port=(port or _DEFAULT_PORT) if without_ports else None)
            expected = None if name == "CLICKLINE_PSERVERS" else number_of(env, "PADDLE_PSERVERS_NUM")
            if expected is not None and expected != len(addresses):
                raise JobError(f"{name} names {len(addresses)} servers, PADDLE_PSERVERS_NUM says {expected}")
            return addresses
    return []


def _beside(pserver: str, env: Mapping[str, str]) -> str:
    if pserver.startswith("unix:"):
        return f"{pserver}.coordinator"
    host, port = host_and_port(pserver)
    if (given := number_of(env, "CLICKLINE_COORDINATOR_PORT")) is not None:
        return tcp(host, given, source="CLICKLINE_COORDINATOR_PORT")
    source = f"CLICKLINE_COORDINATOR is not set, so it is pserver 0's port {port} + {_COORDINATOR_OFFSET}"
    return tcp(host, port + _COORDINATOR_OFFSET, source=source)


def _bind(env: Mapping[str, str], known_as: str) -> str:
    if not known_as:
        return ""
    given = env.get("CLICKLINE_BIND", "")
    if known_as.startswith("unix:"):
        return address_of(given, source="CLICKLINE_BIND") if given else known_as
    host, port = host_and_port(known_as)
    if given:
        return address_of(given, source="CLICKLINE_BIND", port=port)
    # The name that others know us by may be a service's, whose address no interface of ours has.
    return tcp(own_host(env) or host, port, source="POD_IP")
