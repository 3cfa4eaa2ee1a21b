"""Rank of this process and number of trainers, from the variables that PaddlePaddle's launchers set."""

from __future__ import annotations

from collections.abc import Mapping

from clickline.errors import JobError
from clickline.net.addresses import address_of, tcp


def trainers_of(env: Mapping[str, str]) -> int:
    """The number of trainers that the job starts with; 0 if no variable says."""
    if (number := first_number(env, "CLICKLINE_TRAINERS", "PADDLE_TRAINERS_NUM")) is not None:
        return number
    for name in ("PADDLE_TRAINER_ENDPOINTS", "PADDLE_TRAINERS", "PADDLE_TRAINER_IPS"):
        if text := env.get(name, ""):
            # PADDLE_TRAINERS has been both a list of hosts and their number
            return int(text) if text.isdigit() else len([part for part in text.split(",") if part.strip()])
    return 0


def rank_of(role: str, env: Mapping[str, str], *, pservers: list[str], port: int | None) -> int:
    """The rank of this process, from 0. Raises JobError if no variable says it and there are several processes."""
    # PADDLE_PSERVER_ID before the address: where ports count up from PADDLE_PORT, the address is another's.
    if role == "pserver":
        rank = first_number(env, "CLICKLINE_RANK", "PADDLE_PSERVER_ID")
        rank = _own_entry(env, pservers, port) if rank is None else rank
        rank = number_of(env, "PADDLE_TRAINER_ID") if rank is None else rank
        if rank is not None and rank >= len(pservers):
            raise JobError(f"this is pserver {rank}, but only {len(pservers)} are named; ranks begin with 0")
        alone = len(pservers) == 1
        hint = "CLICKLINE_RANK, or POD_IP and PADDLE_PORT such that they are among the servers' addresses"
    else:
        rank = first_number(env, "CLICKLINE_RANK", "PADDLE_TRAINER_ID")
        rank = _own_endpoint(env) if rank is None else rank
        alone = trainers_of(env) == 1
        hint = "CLICKLINE_RANK"
    if rank is not None:
        return rank
    if alone:
        return 0
    raise JobError(f"nothing says which {role} this is: set {hint}")


def _own_entry(env: Mapping[str, str], pservers: list[str], port: int | None) -> int | None:
    candidates = []
    if (host := own_host(env)) and port is not None:
        candidates.append(tcp(host, port, source="PADDLE_PORT"))
    if text := env.get("PADDLE_CURRENT_ENDPOINT", ""):
        candidates.append(address_of(text, source="PADDLE_CURRENT_ENDPOINT"))
    # The whole address first; the host alone only counts if no other server has it.
    for candidate in candidates:
        if candidate in pservers:
            return pservers.index(candidate)
    # An address without its port is the prefix `tcp:HOST:`, with the colon: 10.0.0.1 must not match 10.0.0.12.
    here = [rank for rank, address in enumerate(pservers) if host and address.startswith(tcp(host, 1, source="")[:-1])]
    return here[0] if len(here) == 1 else None


def _own_endpoint(env: Mapping[str, str]) -> int | None:
    own, all_of_them = env.get("PADDLE_CURRENT_ENDPOINT", ""), env.get("PADDLE_TRAINER_ENDPOINTS", "").split(",")
    if own and own in all_of_them:
        return all_of_them.index(own)
    hosts = env.get("PADDLE_TRAINER_IPS", "").split(",")
    host = own_host(env)
    # Several trainers on one host cannot be told apart by the host.
    return hosts.index(host) if host and hosts.count(host) == 1 else None


def own_host(env: Mapping[str, str]) -> str:
    """The host that others know this process by; empty if no variable says."""
    return env.get("POD_IP", "") or env.get("PADDLE_CURRENT_IP", "")


def number_of(env: Mapping[str, str], name: str) -> int | None:
    """The number that a variable holds; None if it is not set."""
    text = env.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise JobError(f"{name}: '{text}' must be a whole number")
    return int(text)


def first_number(env: Mapping[str, str], *names: str) -> int | None:
    """The number of the first variable that is set."""
    return next((number for name in names if (number := number_of(env, name)) is not None), None)
