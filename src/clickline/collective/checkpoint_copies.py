"""Checkpoints for ranks that do not see the run's directory, which is on the host of rank 0.

Files go between rank 0 and such ranks in chunks, by the group that the ranks are in: each round is one exchange of all
of them, with at most one chunk for each rank. A rank that sees the directory reads and writes there. Who does is found
out by the nonce in the run's lock, at each checkpoint: a mount may come and go.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import numpy as np

from clickline import _native
from clickline.collective.rank_exchange import Bytes, RankExchange
from clickline.config.training import CheckpointTransfer
from clickline.errors import CheckpointError
from clickline.files.leftovers import scratch_directory
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_digests import FileDigest
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.received_file import ReceivedFile, read_chunk
from clickline.train.run_files.run_lock import nonce_in
from clickline.train.sparse_tables import owned_buckets

CHUNK_BYTES = 1 << 20
_NOTHING: Bytes = np.empty(0, np.uint8)
Files = Mapping[str, FileDigest]


class CheckpointCopies:
    """Places of checkpoints on this rank's host. All ranks call the same methods in the same order."""

    def __init__(self, *, run: Path, transfer: CheckpointTransfer, exchange: RankExchange) -> None:
        """`run` is the run's directory, on the host of rank 0."""
        self._run, self._transfer, self._exchange = run, transfer, exchange
        self._open = ExitStack()

    def __enter__(self) -> CheckpointCopies:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @cached_property
    def _scratch(self) -> Path:
        """A directory of this process alone, below TMPDIR."""
        return self._open.enter_context(scratch_directory(f"clickline-rank.{self._exchange.rank}-"))

    def without_directory(self) -> list[int]:
        """The ranks that do not see the run's directory. Raises CheckpointError in one that must."""
        rank = self._exchange.rank
        path, nonce = self._exchange.announce([str(self._run), nonce_in(self._run)])
        sees = rank == 0 or (self._transfer != "network" and nonce_in(Path(path)) == nonce)
        if not sees and self._transfer == "directory":
            raise CheckpointError(
                f"rank {rank} does not see the run's directory, {path} on the host of rank 0, and checkpoint.transfer "
                "is directory: mount it there, or let checkpoints travel (auto)"
            )
        return [rank for rank, (here,) in enumerate(self._exchange.all_numbers([sees]).tolist()) if not here]

    def write_tables(self, staging: Path, tables: dict[str, _native.Table]) -> dict[str, FileDigest]:
        """Write the tables of all ranks into rank 0's staging directory; on rank 0, their files with digests."""
        exchange, far = self._exchange, self.without_directory()
        place = self._emptied("part") if exchange.rank in far else staging
        own = checkpoint_files.write_tables(place, tables, part=exchange.rank, parts=exchange.size)
        # Each rank sends its digests after its files are written, so rank 0 cannot make a checkpoint visible in which a
        # rank's files are missing or incomplete.
        listed: list[dict[str, FileDigest]] = exchange.announce(exchange.collect_json(own))
        streams = {0: _chunks(place, own)} if exchange.rank in far else {}
        incoming = {r: _Arrival(staging, listed[r], sender=f"rank {r}") for r in far} if exchange.rank == 0 else {}
        self._carry(streams, incoming, rounds=max((_rounds(listed[rank]) for rank in far), default=0))
        if exchange.rank in far:
            shutil.rmtree(place, ignore_errors=True)
        return {name: digest for part in listed for name, digest in part.items()}

    @contextmanager
    def readable(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        """A checkpoint of rank 0's host, where this rank can read what it needs of it."""
        copy = self._fetched(checkpoint, "copy")
        try:
            yield checkpoint if copy is None else copy
        finally:
            if copy is not None:
                shutil.rmtree(copy.path, ignore_errors=True)

    def start_directory(self, given: str | None) -> str | None:
        """Where this rank finds the weights that the run began with; `given` is rank 0's directory of them."""
        given = self._exchange.announce(given)
        if given is None:
            return None
        # They are never changed, so one copy does for all epochs.
        manifest = checkpoint_files.read(Path(given)).manifest if self._exchange.rank == 0 else None
        copy = self._fetched(Checkpoint(Path(given), self._exchange.announce(manifest)), "start", keep=True)
        return given if copy is None else str(copy.path)

    def _fetched(self, checkpoint: Checkpoint, name: str, *, keep: bool = False) -> Checkpoint | None:
        """This rank's copy of a checkpoint; None if it sees the run's directory."""
        exchange, far = self._exchange, self.without_directory()
        rank, files = exchange.rank, checkpoint.manifest["files"]
        kept = keep and rank in far and (self._scratch / name / MANIFEST).exists()
        has_copy = exchange.all_numbers([kept])[:, 0].tolist()
        wanted = {r: _files_of(files, rank=r, ranks=exchange.size) for r in far if not has_copy[r]}
        streams = {r: _chunks(checkpoint.path, wanted[r]) for r in wanted} if rank == 0 else {}
        place = self._emptied(name) if rank in wanted else None
        incoming = {} if place is None else {0: _Arrival(place, wanted[rank], sender="rank 0")}
        self._carry(streams, incoming, rounds=max(map(_rounds, wanted.values()), default=0))
        if place is not None:  # last, since with it the copy is complete
            (place / MANIFEST).write_text(json.dumps(checkpoint.manifest), encoding="utf-8")
        return Checkpoint(self._scratch / name, checkpoint.manifest) if rank in far else None

    def _carry(self, streams: Mapping[int, Iterator[Bytes]], incoming: Mapping[int, _Arrival], *, rounds: int) -> None:
        """Send chunks to ranks, and take those of others, one of each in every round."""
        ranks = range(self._exchange.size)
        try:
            for _ in range(rounds):
                received = self._exchange.swap_bytes([next(streams.get(rank, iter(())), _NOTHING) for rank in ranks])
                for rank, arrival in incoming.items():
                    arrival.take(received[rank])
        finally:
            for arrival in incoming.values():
                arrival.close()

    def _emptied(self, name: str) -> Path:
        place = self._scratch / name
        shutil.rmtree(place, ignore_errors=True)
        try:
            place.mkdir()
        except OSError as error:
            raise CheckpointError(f"{place}: cannot be made: {error}") from error
        return place


class _Arrival:
    """Files of one sender, received one after the other."""

    def __init__(self, directory: Path, files: Files, *, sender: str) -> None:
        self._directory, self._sender = directory, sender
        self._left = list(files.items())
        self._file: ReceivedFile | None = None

    def take(self, chunk: Bytes) -> None:
        if self._file is None and self._left:
            name, digest = self._left.pop(0)
            self._file = ReceivedFile(self._directory, name, digest, sender=self._sender)
        if self._file is not None:
            self._file.take(chunk)
            if self._file.complete:
                self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _files_of(files: Files, *, rank: int, ranks: int) -> dict[str, FileDigest]:
    """Those of a checkpoint that a rank reads."""
    buckets = owned_buckets(part=rank, parts=ranks)
    return {name: digest for name, digest in files.items() if checkpoint_files.has_rows_of(name, buckets)}


def _chunks(directory: Path, files: Files) -> Generator[Bytes, None, None]:
    """The files one after the other, each in at least one chunk."""
    for name, listed in files.items():
        for offset in range(0, max(listed["bytes"], 1), CHUNK_BYTES):
            content = read_chunk(directory / name, offset=offset, most=CHUNK_BYTES)
            yield np.frombuffer(content, np.uint8)


def _rounds(files: Files) -> int:
    """How many chunks `_chunks` has of them."""
    return sum(max(1, -(-listed["bytes"] // CHUNK_BYTES)) for listed in files.values())
