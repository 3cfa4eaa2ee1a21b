"""Collective operations between ranks, for numbers, rows, tensors and JSON. Nothing is pickled.

All ranks must call the same operations of an exchange in the same order. Two threads of a rank run in no common order,
so each needs an exchange of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from clickline.collective.group import Group

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]


class RankExchange:
    """One ordered sequence of collective operations. `doing` describes them in errors."""

    def __init__(self, group: Group, *, doing: str) -> None:
        self.group = group
        self.rank = group.rank
        self.size = group.size
        self.doing = doing
        with group.together("connecting"):
            self._pg = dist.new_group(backend=group.backend, timeout=timedelta(seconds=group.patience))

    def swap(self, out: torch.Tensor, mine: torch.Tensor, *, receive: Sequence[int], send: Sequence[int]) -> None:
        """All-to-all: the first send[0] items of `mine` go to rank 0, the next send[1] to rank 1, …; into `out` come
        receive[0] items of rank 0, then receive[1] of rank 1, …"""
        # With gloo the device is the CPU and `to` returns the tensor itself: data is copied for NCCL only.
        there = out.to(self.group.device)
        with self.group.together(self.doing):
            dist.all_to_all_single(there, mine.to(self.group.device), list(receive), list(send), group=self._pg)
        if there is not out:
            out.copy_(there)

    def swap_numbers(self, numbers: Integers) -> Integers:
        """All-to-all of numbers: row r of [ranks, n] goes to rank r; row r of the result is from rank r."""
        out = torch.empty(numbers.shape, dtype=torch.int64)
        each = [1] * self.size
        self.swap(out, torch.from_numpy(np.ascontiguousarray(numbers)), receive=each, send=each)
        return out.numpy()

    def swap_bytes(self, parts: Sequence[Bytes]) -> list[Bytes]:
        """All-to-all of bytes: part r goes to rank r; part r of the result is from rank r. Sizes may differ."""
        # Sizes first, so that everybody knows how much to expect.
        send = [len(part) for part in parts]
        receive = self.swap_numbers(np.array(send).reshape(self.size, 1))[:, 0].tolist()
        out = np.empty(sum(receive), np.uint8)
        mine = torch.from_numpy(np.concatenate(parts))
        self.swap(torch.from_numpy(out), mine, receive=receive, send=send)
        return np.split(out, np.cumsum(receive)[:-1])

    def all_numbers(self, numbers: Sequence[int]) -> Integers:
        """All-gather: the numbers of all ranks, [ranks, n]."""
        mine = torch.tensor(numbers, dtype=torch.int64, device=self.group.device)
        out = [torch.empty_like(mine) for _ in range(self.size)]
        with self.group.together(self.doing):
            dist.all_gather(out, mine, group=self._pg)
        return torch.stack(out).cpu().numpy()

    def add_up(self, tensor: torch.Tensor) -> None:
        """All-reduce: replace a tensor by the sum over all ranks, the same bits on each of them."""
        there = tensor.to(self.group.device)
        with self.group.together(self.doing):
            dist.all_reduce(there, group=self._pg)
        if there is not tensor:
            tensor.copy_(there)

    def collect(self, tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """Gather: on rank 0, the tensors of all ranks; elsewhere an empty list."""
        packed = np.frombuffer(save_tensors({name: one.contiguous() for name, one in tensors.items()}), np.uint8)
        got = self.swap_bytes([packed] + [np.empty(0, np.uint8)] * (self.size - 1))
        return [load_tensors(part.tobytes()) for part in got] if self.rank == 0 else []

    def collect_json(self, value: Any) -> list[Any]:
        """Gather of JSON values: on rank 0, those of all ranks; elsewhere an empty list."""
        packed = np.frombuffer(json.dumps(value).encode(), np.uint8)
        got = self.swap_bytes([packed] + [np.empty(0, np.uint8)] * (self.size - 1))
        return [json.loads(part.tobytes()) for part in got] if self.rank == 0 else []

    def announce(self, value: Any) -> Any:
        """Broadcast of a JSON value: that of rank 0, on all ranks. What the others pass is ignored."""
        nothing = np.empty(0, np.uint8)
        packed = np.frombuffer(json.dumps(value).encode(), np.uint8) if self.rank == 0 else nothing
        got = self.swap_bytes([packed] * self.size)
        return json.loads(got[0].tobytes())
