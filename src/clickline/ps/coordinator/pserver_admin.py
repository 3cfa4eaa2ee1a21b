"""What the coordinator asks of all parameter servers at once, and how their parts become one checkpoint."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from safetensors.numpy import save as save_arrays

from clickline import _native
from clickline.config import Job
from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.ps.coordinator.part_files import fetch_parts
from clickline.ps.coordinator.state.failures import LeaseRows
from clickline.ps.coordinator.state.record import RecordFile
from clickline.ps.initial_model import InitialModel
from clickline.ps.protocol import pserver_messages as messages
from clickline.ps.protocol.file_messages import PartReply, PartRequest
from clickline.ps.protocol.framing import Arrays, pack, unpack
from clickline.ps.protocol.member_messages import JsonObject
from clickline.ps.protocol.refusals import ErrorCode
from clickline.ps.staging import part_directory
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_digests import FileDigest

R = TypeVar("R", bound=messages.ServerReply)
_LONG = 3600.0
"""Seconds that a server may take to save or load."""
_TRIES = 3
"""A server that is started again while it has a part of a checkpoint loses it; all save again then."""
_PROBE = 2.0
"""Seconds for a server to answer whether this coordinator is still the newest."""
_PROBED = 4
"""Servers that are asked so."""


class PserverAdmin:
    """A lane to every server. Calls wait for a server that is being restarted, as long as `cluster.retry_for` lasts."""

    def __init__(
        self,
        *,
        job: Job,
        model: Callable[[], InitialModel | None],
        addresses: list[str],
        token: bytes,
        client: int,
        file: RecordFile,
    ) -> None:
        """`model`: what a trainer has described, of which a checkpoint has the names; None if none has yet."""
        self._job, self._model = job, model
        self._addresses = list(addresses)
        self._token, self._client = token, client
        self._file = file
        self.servers = len(addresses)
        self._lane = _native.Lane(
            addresses,
            token=token,
            job=job.name,
            name="coordinator.0",
            client=client,
            lane=9,
            deadline=job.cluster.deadline,
            retry_for=job.cluster.retry_for,
        )

    def moved(self, server: int, address: str) -> None:
        """A server came back somewhere else."""
        self._addresses[server] = address
        self._lane.set_address(server, address, reconnect=True)

    def order(self, request: messages.ServerRequest, reply: type[R]) -> list[tuple[R, Arrays]]:
        """Order all servers something, and wait for all of them."""
        # Numbered, since an order that is sent again must not be carried out again: counts would decay twice. With the
        # writer's epoch, since one of a coordinator that was replaced must not be carried out at all.
        self._file.check_holder()
        order = msgspec.structs.replace(request, order=secrets.token_hex(8), writer_epoch=self._file.epoch)
        bodies = [pack(order) for _ in range(self.servers)]
        return self._checked(self._lane.call(request.operation, bodies, deadline=_LONG), reply)

    def progress(self, *, replaced: Sequence[int] = ()) -> LeaseRows:
        """Rows of each lease: those that have arrived everywhere, and those of which something has anywhere.

        Nothing of the clients that were `replaced` arrives after this.
        """
        request = messages.ProgressRequest(replaced_clients=list(replaced), writer_epoch=self._file.epoch)
        bodies = [pack(request) for _ in range(self.servers)]
        replies = self._checked(self._lane.call(request.operation, bodies), messages.ProgressReply)
        done = [dict(reply.done) for reply, _ in replies]
        begun = [dict(reply.begun) for reply, _ in replies]
        # A server that does not list a lease has received nothing of it and counts as 0: every push goes to all
        # servers, even one without keys for them.
        leases = {lease for part in (*done, *begun) for lease in part}
        return {
            lease: (min(part.get(lease, 0) for part in done), max(part.get(lease, 0) for part in (*done, *begun)))
            for lease in leases
        }

    def check_obeyed(self) -> None:
        """Raise ReplacedError if a server knows of a newer coordinator. Servers that do not answer prove nothing."""
        # On a lane of its own, since the other one may be waiting for a server.
        lane = _native.Lane(
            self._addresses,
            token=self._token,
            job=self._job.name,
            name="coordinator.0",
            client=self._client,
            lane=8,
            deadline=_PROBE,
            retry_for=_PROBE,
        )
        request = messages.StatsRequest(writer_epoch=self._file.epoch)
        try:
            for server in range(min(self.servers, _PROBED)):
                with suppress(PeerError):
                    self._checked(lane.call(request.operation, [pack(request)], only=server), messages.StatsReply)
        finally:
            lane.close()

    def cancel(self) -> None:
        """Have calls that are under way raise PeerError."""
        self._lane.cancel()

    def _checked(self, bodies: list[bytes], reply: type[R]) -> list[tuple[R, Arrays]]:
        """The replies. Raises ReplacedError or CheckpointError if a server refuses for such a reason."""
        replies = [unpack(body, reply) for body in bodies]
        refusals = [(r.refusal, r.writer_epoch) for r, _ in replies if r.refusal is not None]
        newest = max((e for r, e in refusals if r.code == ErrorCode.COORDINATOR_REPLACED), default=0)
        if newest > self._file.epoch:
            raise ReplacedError(
                f"this coordinator, number {self._file.epoch} of the run, was replaced by number {newest}: the "
                "servers take no more orders from it"
            )
        failed = [refusal.message for refusal, _ in refusals if refusal.code == ErrorCode.CHECKPOINT_FAILED]
        if failed:
            raise CheckpointError("; ".join(failed))
        return replies

    def save(self, directory: Path, *, manifest: JsonObject, buffers: Arrays) -> checkpoint_files.Checkpoint:
        """Have every server write its part, and make one checkpoint of them. Trainers have paused."""
        staging = checkpoint_files.begin(directory, step=manifest["step"])
        try:
            replies = self._saved_parts(staging)
            # Only directories named in a reply are used: a server that was replaced while it wrote may still be writing
            # to a directory of its own.
            files: dict[str, FileDigest] = {}
            for reply, _ in replies:
                files |= reply.files
                for name in reply.files if reply.directory else ():
                    (staging.parent / reply.directory / name).rename(staging / name)
            sequences = {str(part): reply.sequences for part, (reply, _) in enumerate(replies)}
            dense = self._dense([arrays for _, arrays in replies], buffers)
            dense["steps"] = np.array(max(reply.steps for reply, _ in replies))
            dense["tick"] = np.array(manifest.get("tick", 0))
            return checkpoint_files.finish(
                staging,
                facts={**manifest, "sequences": sequences},
                dense=save_arrays(dense),
                tables=files,
                check=self._file.check_holder,
            )
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
        finally:
            for left in staging.parent.glob(part_directory(staging, "*")):
                shutil.rmtree(left, ignore_errors=True)

    def _saved_parts(self, staging: Path) -> list[tuple[messages.SaveReply, Arrays]]:
        """Have every server write its part; those that are not in a directory beside the staging one are fetched."""
        for _ in range(_TRIES):
            request = messages.SaveRequest(staging=str(staging.absolute()), directory=self._file.directory)
            replies = self.order(request, messages.SaveReply)
            far = {rank: reply.files for rank, (reply, _) in enumerate(replies) if not reply.directory}
            if fetch_parts(self._ask_all, far, staging=staging, servers=self.servers):
                return replies
        raise CheckpointError(f"servers were started again in each of {_TRIES} tries to fetch their parts from them")

    def _ask_all(self, requests: list[PartRequest]) -> list[tuple[PartReply, Arrays]]:
        bodies = [pack(msgspec.structs.replace(one, writer_epoch=self._file.epoch)) for one in requests]
        return self._checked(self._lane.call(PartRequest.operation, bodies), PartReply)

    def _dense(self, parts: list[Arrays], buffers: Arrays) -> Arrays:
        """The servers' blocks side by side, by the names of the parameters."""
        model = self._model()
        if model is None:
            raise CheckpointError("no trainer has described the model yet, so nothing can be saved")
        named = {f"model.{name}": np.array(value) for name, value in {**model.buffers, **buffers}.items()}
        for key in parts[0]:
            pieces = [part[key] for part in parts]
            # A scalar, the optimizer's number of steps: every server takes each step, so all have the same.
            whole = model.named(np.concatenate(pieces)) if pieces[0].ndim else dict.fromkeys(model.shapes, pieces[0])
            prefix = {"value": "model.{}", "average": "average.{}"}.get(
                key, "optimizer.{}." + key.removeprefix("state.")
            )
            named |= {prefix.format(name): np.array(array) for name, array in whole.items()}
        # A single process that resumes from this checkpoint restores its random state from it.
        named["random.torch"] = model.random_state
        return named

    def close(self) -> None:
        self._lane.cancel()
        self._lane.close()
