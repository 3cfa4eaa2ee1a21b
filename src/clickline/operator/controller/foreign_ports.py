"""Blocks of ports on nodes' networks that jobs in other namespaces have, which another operator may watch."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from clickline.operator.controller.api_client import ApiClient, ApiError
from clickline.operator.job.paddle_job import PLURAL, PaddleJob

_log = logging.getLogger(__name__)
_FORBIDDEN = 403


class ForeignPorts:
    """Asked for only when a block is to be given to a pod: one request for a job on nodes' networks."""

    def __init__(self, client: ApiClient, *, watched: Sequence[str]) -> None:
        self._client, self._watched = client, watched
        self._allowed = True

    async def taken_for(self, job: PaddleJob) -> frozenset[int]:
        """First ports of blocks that jobs which are not watched have; nothing if no block is needed now."""
        if not self._watched or not self._allowed or job.spec.intranet != "Host" or job.status.finished:
            return frozenset()
        names = {name for names in job.pod_names().values() for name in names}
        if names <= job.status.port_blocks.keys():
            return frozenset()
        try:
            bodies = await self._client.list(PLURAL)
        except ApiError as error:
            if error.status != _FORBIDDEN:
                raise
            self._allowed = False
            _log.warning("jobs of other namespaces cannot be listed, so their ports on nodes are not known: %s", error)
            return frozenset()
        blocks = [(body.get("status") or {}).get("portBlocks") or {} for body in bodies]
        return frozenset(
            port
            for body, block in zip(bodies, blocks, strict=True)
            if body["metadata"]["namespace"] not in self._watched
            for port in block.values()
        )
