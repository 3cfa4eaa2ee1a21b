"""What a rank says of itself and prepares during the exchange, the same in every rank."""

from __future__ import annotations

import os
import platform
import random
import shlex
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import msgspec

from clickline.files.typed_json import decode_json
from clickline.launch.hosts.data_view import problems_of_views, view_data
from clickline.launch.mpi.host_addresses import own_addresses
from clickline.launch.mpi.mpi_exchange import MpiExchange
from clickline.launch.mpi.rank_messages import RankFacts, RankOffer, RankRequest

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to outgoing connections."""
_TRIES = 2000


def share_facts(exchange: MpiExchange) -> list[RankFacts]:
    """What all ranks say of themselves."""
    own = RankFacts(
        rank=exchange.rank,
        hostname=socket.gethostname(),
        addresses=own_addresses(),
        clickline=version("clickline"),
        python=platform.python_version(),
        command=shlex.join(sys.argv[1:]),
        cores=sorted(os.sched_getaffinity(0)),
    )
    return [_facts(content, rank) for rank, content in enumerate(exchange.allgather(msgspec.json.encode(own)))]


def _facts(content: bytes, rank: int) -> RankFacts:
    try:
        return decode_json(content, RankFacts)
    except msgspec.MsgspecError as error:
        problem = f"what it says cannot be read ({error}): all must have the same version of Clickline"
        return RankFacts(
            rank=rank, hostname="?", addresses=[], clickline="", python="", command="", cores=[], problem=problem
        )


def problems_of_facts(ranks: Sequence[RankFacts]) -> list[str]:
    """Everything for which nothing can be started, by rank. Every rank finds the same."""
    first, problems = ranks[0], []
    for facts in ranks:
        found = []
        if facts.problem:
            found.append(facts.problem)
        elif facts.clickline != first.clickline:
            found.append(f"it has clickline {facts.clickline}, rank 0 has {first.clickline}: all must have the same")
        elif _minor(facts.python) != _minor(first.python):
            found.append(
                f"it has Python {facts.python}, rank 0 has {first.python}: all must have the same minor version"
            )
        elif facts.command != first.command:
            found.append(f"it was started as `{facts.command}`, rank 0 as `{first.command}`: all ranks train one job")
        problems += [f"rank {facts.rank} on {facts.hostname}: {problem}" for problem in found]
    return problems


def problems_of_offers(ranks: Sequence[RankFacts], offers: Sequence[RankOffer]) -> list[str]:
    """The same for what they have prepared."""
    named = {f"rank {facts.rank} on {facts.hostname}": offer for facts, offer in zip(ranks, offers, strict=True)}
    problems = [f"{name}: {offer.problem}" for name, offer in named.items() if offer.problem]
    return problems or problems_of_views({name: offer.data for name, offer in named.items() if offer.data})


@contextmanager
def prepared(request: RankRequest, *, rank: int) -> Iterator[RankOffer]:
    """A directory for a rank, and ports that are free as long as this lasts: ranks of one host get different ones."""
    with ExitStack() as stack:
        try:
            directory = Path(request.root).expanduser().absolute() / request.job / f"rank-{rank}"
            directory.mkdir(parents=True)
            if request.first_port:
                wanted = range(request.first_port, request.first_port + request.ports)
                ports = [port for port in wanted if stack.enter_context(_held(port))]
            else:
                ports = _free_ports(stack, request.ports)
            data = view_data(request.data, directory=Path.cwd()) if request.data else None
            offer = RankOffer(directory=str(directory), ports=ports, data=data)
        except OSError as error:
            offer = RankOffer(problem=str(error))
        yield offer


def _free_ports(stack: ExitStack, count: int) -> list[int]:
    ports: list[int] = []
    for _ in range(_TRIES):
        if len(ports) == count:
            return ports
        port = random.choice(_PORTS)
        with suppress(OSError):
            stack.enter_context(_held(port))
            ports.append(port)
    raise OSError(f"{count} ports from {_PORTS.start} to {_PORTS.stop} are needed, and fewer are free")


def _held(port: int) -> socket.socket:
    """A socket that has a port, and does not listen."""
    held = socket.socket()
    try:
        held.bind(("", port))
    except OSError as error:
        held.close()
        raise OSError(f"port {port} cannot be had: {error}") from None
    return held


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])
