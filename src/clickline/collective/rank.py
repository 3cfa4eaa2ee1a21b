"""The rank of this process, and where the others are: what torchrun puts into the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clickline.errors import PeerError
from clickline.net.addresses import is_loopback


@dataclass(frozen=True, slots=True)
class Rank:
    """This process among the others."""

    rank: int
    ranks: int
    local_rank: int
    local_ranks: int
    host: str
    port: int
    agent: bool
    """Whether torchrun holds the store, not rank 0."""
    attempt: str
    """Which of torchrun's restarts this is: the store outlives them."""
    gpu: bool
    """Whether CLICKLINE_DEVICE asks for one."""
    token: bytes = field(default=b"", repr=False)
    """The job's token, if it has one: names at the store are made from it."""

    @property
    def on_loopback(self) -> bool:
        """Whether all ranks are on one machine and connect at an address that no other machine can reach."""
        return is_loopback(self.host)


def in_a_group(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this process was started as a rank, by torchrun or by hand."""
    return "RANK" in environ and "WORLD_SIZE" in environ


def read_rank(environ: Mapping[str, str] = os.environ) -> Rank:
    """Read RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torchrun sets them."""
    rank, ranks = _number(environ, "RANK"), _number(environ, "WORLD_SIZE")
    if ranks < 1 or rank >= ranks:
        raise PeerError(f"RANK is {rank} and WORLD_SIZE {ranks}; ranks are numbered from 0 to WORLD_SIZE - 1")
    host = environ.get("MASTER_ADDR", "")
    if not host:
        raise PeerError("MASTER_ADDR is not set; it names the host of rank 0, and torchrun sets it")
    device = environ.get("CLICKLINE_DEVICE", "cpu")
    if device not in ("cpu", "cuda"):
        raise PeerError(f"CLICKLINE_DEVICE is {device!r}; known devices: cpu, cuda")
    return Rank(
        rank=rank,
        ranks=ranks,
        local_rank=_number(environ, "LOCAL_RANK", rank),
        local_ranks=max(_number(environ, "LOCAL_WORLD_SIZE", ranks), 1),
        host=host,
        port=_number(environ, "MASTER_PORT"),
        agent=environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
        attempt=environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
        gpu=device == "cuda",
        token=_token(environ),
    )


def _token(environ: Mapping[str, str]) -> bytes:
    token, file = environ.get("CLICKLINE_TOKEN", ""), environ.get("CLICKLINE_TOKEN_FILE", "")
    if not token and file:
        try:
            token = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise PeerError(f"CLICKLINE_TOKEN_FILE: {file!r} cannot be read as text") from None
    return token.strip().encode()


def _number(environ: Mapping[str, str], name: str, otherwise: int | None = None) -> int:
    text = environ.get(name, "")
    if not text and otherwise is not None:
        return otherwise
    if not text.isdecimal():
        raise PeerError(f"{name} is {text!r}, a number was expected; torchrun sets it, and `clickline train` does")
    return int(text)
