"""The exchange as rank 0 leads it: it meets the others, has them prepare, and gives each its task or refuses all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache

import msgspec

from clickline.errors import ClicklineError, PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.mpi.mpi_exchange import MpiExchange
from clickline.launch.mpi.rank_environment import forget_rank_environment, read_rank_environment
from clickline.launch.mpi.rank_messages import RankFacts, RankOffer, RankRequest, RankTask
from clickline.launch.mpi.rank_preparation import prepared, problems_of_facts, problems_of_offers, share_facts


class FirstRank:
    """Rank 0 of a run that has not begun. MPI is used until the tasks are given, or refused."""

    def __init__(self) -> None:
        self._exchange: MpiExchange | None = None
        self._ranks: list[RankFacts] = []
        self._closed = self._offered = False

    def meet(self) -> list[RankFacts]:
        """What all ranks say of themselves. Raises PeerError that lists everything that is wrong with them."""
        if self._ranks:
            return self._ranks
        self._closed = True  # unless all goes well, there is nobody to refuse anything to
        self._exchange = MpiExchange(read_rank_environment())
        ranks = share_facts(self._exchange)
        self._check(problems_of_facts(ranks))
        self._ranks, self._closed = ranks, False
        return ranks

    def assign(
        self, requests: Sequence[RankRequest], tasks: Callable[[Sequence[RankOffer]], Sequence[RankTask]]
    ) -> RankTask:
        """Have all ranks prepare, and give each its task, made from all offers; returns that of rank 0."""
        exchange = self._exchange
        assert exchange is not None and not self._closed  # noqa: S101  (it has met the others)
        request = decode_json(exchange.scatter([msgspec.json.encode(each) for each in requests]), RankRequest)
        with prepared(request, rank=0) as own:
            contents = exchange.allgather(msgspec.json.encode(own))
            offers = [decode_json(content, RankOffer) for content in contents]
            self._offered = True
            self._check(problems_of_offers(self._ranks, offers))
        # Its ports are free by now: rank 0 listens on one before the others are told of it.
        task = decode_json(exchange.scatter([msgspec.json.encode(each) for each in tasks(offers)]), RankTask)
        self._close()
        return task

    def refuse(self) -> None:
        """Let the other ranks end: nothing will be started, and this one tells why."""
        if self._exchange is None and not self._closed:
            with suppress(ClicklineError):
                self.meet()
        if self._closed or self._exchange is None:
            return
        refusal = RankTask() if self._offered else RankRequest(job="", root="", first_port=0, ports=0, refused=True)
        self._exchange.scatter([msgspec.json.encode(refusal)] * len(self._ranks))
        self._close()

    def _check(self, problems: Sequence[str]) -> None:
        if problems:
            self._close()
            raise PeerError("nothing was started:\n" + "\n".join(f"  {problem}" for problem in problems))

    def _close(self) -> None:
        assert self._exchange is not None  # noqa: S101  (whoever closes it has opened it)
        self._exchange.close()
        self._closed = True
        forget_rank_environment()


@cache
def first_rank() -> FirstRank:
    """The one of this process: MPI can be entered and left once."""
    return FirstRank()


@contextmanager
def leading() -> Iterator[FirstRank]:
    """Rank 0; if it fails in here before the others have their tasks, they are let go.

    Without that they would wait for it: mpirun would end them, srun would not.
    """
    first = first_rank()
    try:
        yield first
    except BaseException:
        first.refuse()
        raise
