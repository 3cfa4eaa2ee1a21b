"""What the coordinator asks of all parameter servers at once, and how their parts become one checkpoint."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from clickline import _native
from clickline.config import Job
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, PeerError, ReplacedError
from clickline.ps.coordinator.record import StandingFile
from clickline.ps.messages import pack, unpack
from clickline.train.checkpoints import checkpoint_files
from clickline.train.flat_parameters import Flat
from clickline.train.model_factory import build

_LONG = 3600.0
"""Seconds that a server may take to save or load."""
_PROBE = 2.0
_PROBED = 4
"""Seconds for a server, and servers, to be asked whether this coordinator is still the one."""


def part_of(aside: Path, who: str) -> str:
    """The directory in which one server's files of a checkpoint are written, beside that of the checkpoint.

    Each process has its own: a server that was stopped while it wrote, and replaced, must not write on in a file that
    the one in its place has written.
    """
    return f".writing-{who}-{aside.name.removeprefix('.writing-')}"


class Orders:
    """A way to every server. Calls wait for a server that is being restarted, as long as the job's patience lasts."""

    def __init__(
        self, *, job: Job, schema: Schema, addresses: list[str], token: bytes, client: int, file: StandingFile
    ) -> None:
        self._job = job
        self._addresses = list(addresses)
        self._token, self._client = token, client
        self._schema = schema
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

    def all(self, op: str, facts: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """Order all servers something, and wait for all of them."""
        return [said for said, _ in self._order(op, facts or {})]

    def progress(self, *, replaced: list[int] | None = None) -> dict[int, tuple[int, int]]:
        """Rows of each lease: those that have arrived everywhere, and those of which something has anywhere.

        Of the clients that were `replaced` nothing arrives after this.
        """
        facts = {"replaced_clients": replaced or [], "writer_epoch": self._file.epoch}
        bodies = [pack(facts) for _ in range(self.servers)]
        replies = [said for said, _ in self._checked(self._lane.call("progress", bodies))]
        done = [dict(said["done"]) for said in replies]
        begun = [dict(said["begun"]) for said in replies]
        leases = {lease for part in (*done, *begun) for lease in part}
        return {
            lease: (min(part.get(lease, 0) for part in done), max(part.get(lease, 0) for part in (*done, *begun)))
            for lease in leases
        }

    def check_obeyed(self) -> None:
        """Raise ReplacedError if a server knows of a newer coordinator. Servers that are not there say nothing."""
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
        body = pack({"writer_epoch": self._file.epoch})
        try:
            for server in range(min(self.servers, _PROBED)):
                with suppress(PeerError):
                    self._checked(lane.call("stats", [body], only=server))
        finally:
            lane.close()

    def cancel(self) -> None:
        """Whatever is being asked is not wanted any more."""
        self._lane.cancel()

    def _order(self, op: str, facts: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        # Numbered, since an order that is sent again must not be carried out again: counts would decay twice. With the
        # writer's epoch, since one of a coordinator that was replaced must not be carried out at all.
        self._file.check_holder()
        numbered = {**facts, "order": secrets.token_hex(8), "writer_epoch": self._file.epoch}
        bodies = [pack(numbered) for _ in range(self.servers)]
        return self._checked(self._lane.call(op, bodies, deadline=_LONG))

    def _checked(self, replies: list[bytes]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        found = [unpack(reply) for reply in replies]
        newest = max((said.get("overtaken", 0) for said, _ in found), default=0)
        if newest > self._file.epoch:
            raise ReplacedError(
                f"this coordinator, number {self._file.epoch} of the run, was replaced by number {newest}: the "
                "servers take no more orders from it"
            )
        return found

    def save(self, directory: Path, *, facts: dict[str, Any], buffers: dict[str, Any]) -> checkpoint_files.Checkpoint:
        """Have every server write its part, and make one checkpoint of them. Trainers have paused."""
        aside = checkpoint_files.begin(directory, step=facts["step"])
        try:
            replies = self._order("save", {"aside": str(aside)})
            files: dict[str, Any] = {}
            for said, _ in replies:
                if "unwritable" in said:
                    raise CheckpointError(said["unwritable"])
                files |= said["files"]
                for name in said["files"]:
                    (aside.parent / said["directory"] / name).rename(aside / name)
            sequences = {str(part): said["sequences"] for part, (said, _) in enumerate(replies)}
            tensors = self._dense([arrays for _, arrays in replies], buffers)
            tensors["steps"] = torch.tensor(max(said["steps"] for said, _ in replies))
            tensors["tick"] = torch.tensor(facts.get("tick", 0))
            return checkpoint_files.finish(
                aside,
                facts={**facts, "sequences": sequences},
                tensors=tensors,
                tables=files,
                check=self._file.check_holder,
            )
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
        finally:
            for left in aside.parent.glob(part_of(aside, "*")):
                shutil.rmtree(left, ignore_errors=True)

    def _dense(self, parts: list[dict[str, Any]], buffers: dict[str, Any]) -> dict[str, torch.Tensor]:
        """The servers' blocks side by side, by the names of the parameters."""
        model = build(self._job, self._schema)
        flat = Flat(model)
        named = {f"model.{name}": torch.from_numpy(np.array(value)) for name, value in buffers.items()}
        for name, tensor in model.named_buffers():
            named.setdefault(f"model.{name}", tensor)
        for key in parts[0]:
            pieces = [torch.from_numpy(np.array(part[key])) for part in parts]
            if pieces[0].dim() == 0:
                whole = dict.fromkeys(flat.named(flat.values), pieces[0])
            else:
                whole = flat.named(torch.cat(pieces))
            prefix = {"value": "model.{}", "average": "average.{}"}.get(
                key, "optimizer.{}." + key.removeprefix("state.")
            )
            named |= {prefix.format(name): tensor.clone() for name, tensor in whole.items()}
        named["random.torch"] = torch.get_rng_state()
        return named

    def close(self) -> None:
        self._lane.cancel()
        self._lane.close()
