"""The process group of the ranks: how they find each other, and how one learns why another was lost.

Every rank meets the others at a small key-value store, which torchrun or rank 0 holds at MASTER_ADDR:MASTER_PORT. It
is also where a rank that fails writes its reason. A rank whose connection is closed reads it there, so it can report
which rank failed first and why, or which ranks are gone without a reason, as killed ones are.

Neither the store nor gloo asks who connects. On one machine both listen on the loopback address only. Across machines
gloo listens at the interface that leads to rank 0, the store on the address that MASTER_ADDR names, if this host has
it. Names at the store are made from the job's token, so that ranks of another job, or a process that only guesses
names, change nothing. A process that can connect can still list the names, with a new enough PyTorch: docs/cluster.md
lists what is open.
"""

from __future__ import annotations

import errno
import hmac
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from threading import Lock

import torch
import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from clickline.collective.rank import Rank, read_rank
from clickline.config.cluster import Cluster
from clickline.errors import PeerError
from clickline.net.own_addresses import interface_of, source_address

log = logging.getLogger("clickline.collective")
GRACE = 2.0
"""Seconds that the other ranks wait for a failed rank's reason, and a failed rank for them to read it."""
_TEXT_LIMIT = 2000
_meetings = count()  # torchrun's store outlives a group: another one of the same processes needs names of its own


class Group:
    """The connected ranks of a run. `patience` is the timeout, in seconds, of every exchange between them."""

    def __init__(self, own: Rank, store: Store, *, backend: str, patience: float) -> None:
        self.own = own
        self.rank = own.rank
        self.size = own.ranks
        self.backend = backend
        self.device = torch.device("cuda", own.local_rank) if backend == "nccl" else torch.device("cpu")
        self.patience = patience
        self._store = store
        self._telling = Lock()
        self._cause = ""
        """Why this rank cannot continue: the first cause, whichever thread finds it."""

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes: journal, checkpoints, result."""
        return self.rank == 0

    @contextmanager
    def together(self, doing: str) -> Iterator[None]:
        """Around every exchange: PyTorch's error about a closed connection becomes a PeerError that names the cause."""
        try:
            yield
        except RuntimeError as error:
            raise self._lost(doing, error) from error

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Around a rank's whole work: reports its failure to the others, which would only see a closed connection."""
        try:
            yield
        except BaseException as error:
            self._tell(error)
            raise

    def leave(self) -> None:
        """Leave the group when all have finished. Rank 0 leaves last if it holds the store."""
        if dist.is_initialized():
            with self.together("leaving"):
                dist.barrier()
            dist.destroy_process_group()

    def _tell(self, error: BaseException) -> None:
        theirs = bool(self._cause)
        self._cause = self._cause or f"{type(error).__name__}: {str(error) or 'interrupted'}"
        try:
            if theirs:  # a peer failed, not this rank: it has written its reason, or never will
                dist.destroy_process_group()
                return
            # The reason must be at the store before the connections close: peers that see a closed connection look for
            # it there, for GRACE seconds at most.
            self._store.set(f"failed/{self.rank}", self._cause[:_TEXT_LIMIT])
            dist.destroy_process_group()  # closes the connections, so that no rank waits for this one
            self._linger(set(range(self.size)))
        except RuntimeError:  # the store is gone as well: there is no rank left to report to
            pass

    def _lost(self, doing: str, error: RuntimeError) -> PeerError:
        """The error after a closed connection, from the reasons that other ranks have written to the store."""
        first_words = str(error).split(". This is")[0].split("] ", 1)[-1]
        if "imed out" in first_words:
            first_words = f"no answer for {self.patience:g} s, cluster.retry_for"
        # With staleness 1 two threads can lose the group at the same moment. One of them asks the store, and both
        # report the same cause.
        with self._telling:
            try:
                self._cause = self._cause or self._ask()
            except RuntimeError:
                self._cause = "rank 0 is gone without a word, and the store with it (killed?)"
        return PeerError(f"{self._name} lost its peers while {doing}: {self._cause} ({first_words})")

    def _ask(self) -> str:
        self._store.set(f"lost/{self.rank}", "1")
        others = [rank for rank in range(self.size) if rank != self.rank]
        # Wait until some rank has written why it failed, or all have noticed that something is wrong. Ranks that have
        # done neither in time are the ones that are gone.
        until = time.monotonic() + GRACE
        while True:
            for rank in others:
                if self._store.check([f"failed/{rank}"]):
                    reason = self._store.get(f"failed/{rank}").decode(errors="replace")
                    self._linger({one for one in others if self._store.check([f"lost/{one}"])})
                    return f"rank {rank} failed: {reason}"
            silent = [rank for rank in others if not self._store.check([f"lost/{rank}"])]
            if time.monotonic() > until or not silent:
                break
            time.sleep(0.05)
        self._linger(set(others) - set(silent))
        if not silent:
            return "the connection between them was cut; all ranks are alive"
        named = ", ".join(map(str, silent[:8])) + (", …" if len(silent) > 8 else "")
        return f"rank {named} gone without a word (killed, or stuck?)"

    def _linger(self, readers: set[int]) -> None:
        """Keep the store open, if this process holds it, until these ranks have read it."""
        self._store.set(f"told/{self.rank}", "1")
        # Only a store that rank 0 holds ends with this process; that of torchrun outlives all ranks.
        if self.rank != 0 or self.own.agent:
            return
        until = time.monotonic() + GRACE
        keys = [f"told/{rank}" for rank in sorted(readers)]
        while keys and time.monotonic() < until and not self._store.check(keys):
            time.sleep(0.05)

    @property
    def _name(self) -> str:
        return f"rank {self.rank} of {self.size}"


def join(cluster: Cluster, *, own: Rank | None = None) -> Group:
    """Connect to the other ranks, or raise PeerError that names those missing after `cluster.start_timeout`."""
    own = own or read_rank()
    if dist.is_initialized():
        raise PeerError("torch.distributed is already initialised in this process; let clickline do it")
    until = time.monotonic() + cluster.start_timeout
    store = _store(own, patience=cluster.start_timeout)
    # Ranks are counted at the store before PyTorch connects them: it would wait without naming those that are missing.
    backend = _meet(own, store, until=until, patience=cluster.start_timeout)
    # Or it would listen on the address that this host's name has, which others may not reach.
    if backend == "gloo" and (interface := interface_of(source_address(own.host))):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
    group = Group(own, store, backend=backend, patience=cluster.retry_for)
    with group.together("connecting"):
        dist.init_process_group(
            backend,
            store=PrefixStore("group", store),
            rank=own.rank,
            world_size=own.ranks,
            timeout=timedelta(seconds=group.patience),
        )
    return group


def _store(own: Rank, *, patience: float) -> Store:
    holds = own.rank == 0 and not own.agent
    where = f"{own.host}:{own.port}"
    waits = timedelta(seconds=patience)
    try:
        if holds:
            listener = _listening(own)
            store = TCPStore(
                own.host,
                listener.getsockname()[1],
                None,
                is_master=True,
                timeout=waits,
                wait_for_workers=False,
                master_listen_fd=listener.detach(),  # the store's from here on
            )
        else:
            store = TCPStore(own.host, own.port, None, is_master=False, timeout=waits, wait_for_workers=False)
    except (RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0]
        if holds:
            raise PeerError(f"rank 0 cannot listen at {where} (MASTER_ADDR:MASTER_PORT): {reason}") from error
        raise PeerError(
            f"rank {own.rank} of {own.ranks} found nobody at {where} (MASTER_ADDR:MASTER_PORT) within "
            f"{patience:g} s; is rank 0 running there? ({reason})"
        ) from error
    return PrefixStore(f"clickline/{_secret(own)}/{own.attempt}/{next(_meetings)}", store)


def _listening(own: Rank) -> socket.socket:
    """A socket at the address that MASTER_ADDR names. Left to itself, the store would listen on all of this host's."""
    family, kind, _, _, address = socket.getaddrinfo(own.host, own.port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            # The name of a service, say, that leads here although no interface has its address.
            log.warning("%s is not an address of this host: the store listens on all of them", own.host)
            listener.bind(("::" if family == socket.AF_INET6 else "", own.port))
        listener.listen(socket.SOMAXCONN)
    except BaseException:
        listener.close()
        raise
    return listener


def _secret(own: Rank) -> str:
    """Part of every name at the store, made from the token: processes of another job use other names."""
    return hmac.new(own.token, b"clickline collective", "sha256").hexdigest()[:32] if own.token else "open"


def _meet(own: Rank, store: Store, *, until: float, patience: float) -> str:
    """Wait for all; return the backend, which is NCCL only if every rank has a GPU and was asked to use it."""
    able = own.gpu and torch.cuda.device_count() > own.local_rank and dist.is_nccl_available()
    keys = [f"joined/{rank}" for rank in range(own.ranks)]
    missing = keys
    try:
        store.set(keys[own.rank], "nccl" if able else "gloo")
        while not store.check(keys):
            if time.monotonic() > until:
                missing = [key for key in keys if not store.check([key])]
                break
            time.sleep(0.05)
        else:
            return "nccl" if all(store.get(key) == b"nccl" for key in keys) else "gloo"
    except RuntimeError as error:
        raise PeerError(
            f"rank {own.rank} of {own.ranks}: rank 0 at {own.host}:{own.port} went away while ranks were still missing"
        ) from error
    numbers = ", ".join(key.partition("/")[2] for key in missing)
    raise PeerError(
        f"rank {numbers} of {own.ranks} did not come to {own.host}:{own.port} within {patience:g} s "
        "(cluster.start_timeout); start every rank with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and with the "
        "same CLICKLINE_TOKEN if any has one"
    )
