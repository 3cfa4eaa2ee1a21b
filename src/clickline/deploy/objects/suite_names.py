"""Names, ports and labels of a suite's objects, by which its parts find each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clickline.cube.layouts.layout import Replica

SUITE_LABEL, PART_LABEL, SHARD_LABEL = "clickline.dev/suite", "clickline.dev/part", "clickline.dev/shard"
FILE_SERVER, CUBE, TRANSFER, PREDICTOR, TRAINING, CLIENT = (
    "file-server",
    "cube",
    "transfer",
    "predictor",
    "training",
    "client",
)
FILE_PORT, CUBE_PORT, CUBE_HTTP_PORT, AGENT_PORT, TRANSFER_PORT, PREDICTOR_PORT = 8080, 8027, 8028, 8001, 8099, 8010
"""As in ElasticCTR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteNames:
    """The names of one suite's objects."""

    suite: str
    namespace: str

    def of(self, part: str) -> str:
        return f"{self.suite}-{part}"

    def cube_shard(self, shard: int) -> str:
        """Of the StatefulSet of a shard, and of its headless Service."""
        return f"{self.of(CUBE)}-{shard}"

    @property
    def claim(self) -> str:
        return self.of("store")

    @property
    def token_secret(self) -> str:
        return self.of("token")

    def host(self, part: str) -> str:
        """Of a part's Service, for other pods."""
        return f"{self.of(part)}.{self.namespace}.svc"

    def labels(self, part: str, **more: str) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "clickline",
            "app.kubernetes.io/managed-by": "clickline",
            SUITE_LABEL: self.suite,
            PART_LABEL: part,
            **more,
        }

    def selector(self, part: str) -> dict[str, str]:
        return {SUITE_LABEL: self.suite, PART_LABEL: part}

    def members(self, *, shards: int, replicas: int) -> Sequence[Sequence[Replica]]:
        """The cube's servers by shard, at names that stay while pods come and go."""
        return [[self._member(shard, replica) for replica in range(replicas)] for shard in range(shards)]

    def _member(self, shard: int, replica: int) -> Replica:
        service = self.cube_shard(shard)
        host = f"{service}-{replica}.{service}.{self.namespace}.svc.cluster.local"
        return Replica(agent=f"http://{host}:{AGENT_PORT}", cube=f"tcp:{host}:{CUBE_PORT}")
