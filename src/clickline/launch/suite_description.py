"""What a suite is made of, wherever it runs: how many of each process, and the command of each.

    versions ── file server ── transfer ── agents ── cube servers ── predictor

`clickline up` starts these commands as processes of this machine, `clickline deploy` as containers of a cluster; both
say only where each of them listens and has its files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MODEL = "ctr"
SHARDS, REPLICAS = 2, 2
"""Of the cube."""
WORKERS = 2
"""Of the predictor: with one of them gone, the other answers."""
KEEP = 3
"""Versions that the cube keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteDescription:
    """A suite: its model, its numbers, and the arguments of `clickline` for each of its processes."""

    model: str = MODEL
    shards: int = SHARDS
    replicas: int = REPLICAS
    workers: int = WORKERS
    keep: int = KEEP
    interval: float = 10.0
    """Seconds between transfer's looks at the store."""
    wait: float = 5.0
    """Seconds that a rollout waits for a server that is dead or fails."""
    memory: bool = False
    """Whether cube servers read rows into memory instead of mapping files."""

    @property
    def process_count(self) -> int:
        """File server, transfer, predictor, and a server and an agent for each replica."""
        return 3 + 2 * self.shards * self.replicas

    def file_server(self, *, root: str, listen: str) -> list[str]:
        return ["fileserver", "--root", root, "--listen", listen]

    def cube_server(self, directory: str, *, shard: int, shards: int = 0, listen: str, http: str) -> list[str]:
        """`shards` are those of its layout, where that has another number."""
        own = [directory, "--name", self.model, "--listen", listen, "--http", http]
        place = ["--shard", str(shard), "--shards", str(shards or self.shards), "--keep", str(self.keep)]
        return ["cube", "serve", *own, *place, *(["--memory"] if self.memory else [])]

    def agent(self, directory: str, *, cube: str, listen: str) -> list[str]:
        return ["agent", directory, "--cube", cube, "--listen", listen]

    def transfer(self, file: str, *, listen: str) -> list[str]:
        return ["transfer", file, "--listen", listen]

    def transfer_keys(self, *, store: str, builds: str, state: str, members: Mapping[str, object]) -> dict[str, object]:
        """The file of transfer; `members` is the key by which it finds the cube's, as `layouts`, and its value."""
        return {
            "dict_name": self.model,
            "donefile_address": store,
            "output_address": builds,
            "tmp_address": state,
            **members,
            "interval": self.interval,
            "wait": self.wait,
            "keep": self.keep,
        }

    def predictor(self, *, store: str, cube: str, listen: str) -> list[str]:
        """A predictor of the suite's own model alone; `cube` is where its rows are, as --cube takes it."""
        own = ["serve", store, "--cube", cube, "--cube-name", self.model, "--name", self.model]
        return [*own, *self.predictor_place(listen=listen)]

    def configured_predictor(self, file: str, *, listen: str) -> list[str]:
        """A predictor by a file, which names the suite's model with others."""
        return ["serve", "--config", file, *self.predictor_place(listen=listen)]

    def predictor_place(self, *, listen: str) -> list[str]:
        return ["--listen", listen, "--workers", str(self.workers)]
