"""Messages among all ranks over MPI, as bytes: at the start of a run, then never again.

MPI is left as soon as the ranks know each other. While it is in use its library keeps a core busy with waiting, and a
rank that fails takes all others with it; TCP connections of our own do neither.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from clickline.errors import JobError, PeerError
from clickline.launch.mpi.rank_environment import RankEnvironment

_LENGTH = struct.Struct("<q")
_MOST_BYTES = 256 << 20
"""Of all ranks' messages together."""


class MpiExchange:
    """This rank among all others. Every rank makes the same calls in the same order; the last one is `close`."""

    def __init__(self, environment: RankEnvironment) -> None:
        self._mpi = _load_mpi()
        self._mpi.Init()
        self._all = self._mpi.COMM_WORLD
        self.rank, self.size = int(self._all.Get_rank()), int(self._all.Get_size())
        if (self.rank, self.size) != (environment.rank, environment.size):
            self._mpi.Finalize()
            raise PeerError(_alone(environment, self.size))

    def allgather(self, content: bytes) -> list[bytes]:
        """The messages of all ranks, by rank."""
        lengths = bytearray(_LENGTH.size * self.size)
        self._all.Allgather([_LENGTH.pack(len(content)), self._mpi.BYTE], [lengths, self._mpi.BYTE])
        counts = [count for (count,) in _LENGTH.iter_unpack(lengths)]
        total = sum(counts)
        if total > _MOST_BYTES:
            raise PeerError(f"{self.size} ranks have {total:,} bytes to say, more than {_MOST_BYTES:,}")
        everything = bytearray(total)
        self._all.Allgatherv([content, self._mpi.BYTE], [everything, counts, _starts(counts), self._mpi.BYTE])
        return [bytes(everything[start : start + n]) for start, n in zip(_starts(counts), counts, strict=True)]

    def scatter(self, contents: Sequence[bytes] | None = None) -> bytes:
        """To each rank the message that rank 0 has for it; only rank 0 gives them."""
        counts = [len(content) for content in contents or ()]
        own = bytearray(_LENGTH.size)
        packed = b"".join(map(_LENGTH.pack, counts))
        self._all.Scatter([packed, self._mpi.BYTE] if contents else None, [own, self._mpi.BYTE], root=0)
        (length,) = _LENGTH.unpack(own)
        if length > _MOST_BYTES:
            raise PeerError(f"rank 0 has {length:,} bytes for rank {self.rank}, more than {_MOST_BYTES:,}")
        content = bytearray(length)
        everything = [b"".join(contents), counts, _starts(counts), self._mpi.BYTE] if contents else None
        self._all.Scatterv(everything, [content, self._mpi.BYTE], root=0)
        return bytes(content)

    def close(self) -> None:
        """Leave MPI for good."""
        self._mpi.Finalize()


def _load_mpi() -> Any:  # mpi4py's types are those of the library that it finds
    try:
        # Named by hand, since importing MPI would start it, and end it in an order of its own.
        settings = import_module("mpi4py").rc
        settings.initialize = settings.finalize = False
        return import_module("mpi4py.MPI")
    except ModuleNotFoundError:
        raise JobError("--on mpi needs the package mpi4py on every host: pip install 'clickline[mpi]'") from None
    except (ImportError, RuntimeError) as error:
        raise JobError(
            f"mpi4py finds no MPI library on this host: install that of the mpirun in use, such as Open MPI ({error})"
        ) from None


def _alone(environment: RankEnvironment, size: int) -> str:
    """Why MPI knows of other ranks than the launcher has started, and what to do."""
    told = f"{environment.launcher} has started {environment.size} ranks, and the MPI library here knows of {size}"
    if environment.launcher == "srun":
        return (
            f"{told}: srun must offer the interface that the library speaks, such as srun --mpi=pmix (srun --mpi=list)"
        )
    return f"{told}: mpirun and the library that mpi4py loads must be of the same MPI (python -m mpi4py --mpi-library)"


def _starts(counts: Sequence[int]) -> list[int]:
    starts, total = [], 0
    for count in counts:
        starts.append(total)
        total += count
    return starts
