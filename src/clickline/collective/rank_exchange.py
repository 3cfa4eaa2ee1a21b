"""What ranks say to each other: numbers, rows, tensors, facts. Nothing is pickled.

An RankExchange is one ordered conversation: all ranks must say the same things in the same order. Two threads of a rank
therefore need one each.
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
    """Collectives of one conversation. `doing` is what an error says was going on."""

    def __init__(self, group: Group, *, doing: str) -> None:
        self.group = group
        self.rank = group.rank
        self.size = group.size
        self.doing = doing
        with group.together("connecting"):
            self._pg = dist.new_group(backend=group.backend, timeout=timedelta(seconds=group.patience))

    def swap(self, out: torch.Tensor, mine: torch.Tensor, *, receive: Sequence[int], send: Sequence[int]) -> None:
        """The first send[0] items of `mine` go to rank 0, the next to rank 1, …; `out` is filled in the same way."""
        there = out.to(self.group.device)
        with self.group.together(self.doing):
            dist.all_to_all_single(there, mine.to(self.group.device), list(receive), list(send), group=self._pg)
        if there is not out:
            out.copy_(there)

    def swap_numbers(self, numbers: Integers) -> Integers:
        """Row r of [ranks, n] goes to rank r; row r of the answer came from it."""
        out = torch.empty(numbers.shape, dtype=torch.int64)
        each = [1] * self.size
        self.swap(out, torch.from_numpy(np.ascontiguousarray(numbers)), receive=each, send=each)
        return out.numpy()

    def swap_bytes(self, parts: Sequence[Bytes]) -> list[Bytes]:
        """Part r goes to rank r; the answer's part r came from it. Sizes may be anything."""
        send = [len(part) for part in parts]
        receive = self.swap_numbers(np.array(send).reshape(self.size, 1))[:, 0].tolist()
        out = np.empty(sum(receive), np.uint8)
        mine = torch.from_numpy(np.concatenate(parts))
        self.swap(torch.from_numpy(out), mine, receive=receive, send=send)
        return np.split(out, np.cumsum(receive)[:-1])

    def all_numbers(self, numbers: Sequence[int]) -> Integers:
        """Everybody's numbers, by rank."""
        mine = torch.tensor(numbers, dtype=torch.int64, device=self.group.device)
        out = [torch.empty_like(mine) for _ in range(self.size)]
        with self.group.together(self.doing):
            dist.all_gather(out, mine, group=self._pg)
        return torch.stack(out).cpu().numpy()

    def add_up(self, tensor: torch.Tensor) -> None:
        """Replace by the sum over all ranks: the same bits everywhere, and every time."""
        there = tensor.to(self.group.device)
        with self.group.together(self.doing):
            dist.all_reduce(there, group=self._pg)
        if there is not tensor:
            tensor.copy_(there)

    def collect(self, tensors: dict[str, torch.Tensor]) -> list[dict[str, torch.Tensor]]:
        """On rank 0, everybody's tensors by rank; elsewhere an empty list."""
        packed = np.frombuffer(save_tensors({name: one.contiguous() for name, one in tensors.items()}), np.uint8)
        got = self.swap_bytes([packed] + [np.empty(0, np.uint8)] * (self.size - 1))
        return [load_tensors(part.tobytes()) for part in got] if self.rank == 0 else []

    def collect_json(self, value: Any) -> list[Any]:
        """The same for anything that JSON can say."""
        packed = np.frombuffer(json.dumps(value).encode(), np.uint8)
        got = self.swap_bytes([packed] + [np.empty(0, np.uint8)] * (self.size - 1))
        return [json.loads(part.tobytes()) for part in got] if self.rank == 0 else []

    def announce(self, value: Any) -> Any:
        """What rank 0 says, on all ranks; what the others pass is ignored."""
        nothing = np.empty(0, np.uint8)
        packed = np.frombuffer(json.dumps(value).encode(), np.uint8) if self.rank == 0 else nothing
        got = self.swap_bytes([packed] * self.size)
        return json.loads(got[0].tobytes())
