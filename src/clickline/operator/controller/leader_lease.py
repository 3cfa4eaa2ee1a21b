"""One of several operators works: the one that holds a Lease, as controllers of Kubernetes itself agree on it.

Not kopf's peering: an operator that was stopped and goes on after its lifetime would work beside its successor until it
reads that there is one. Here whoever holds the Lease stops by its own clock, before anybody else may take it, and
asks that clock before each write.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import time
from collections.abc import Callable
from datetime import UTC, datetime

from clickline.errors import PeerError
from clickline.operator.controller.api_client import LEASE_VERSION, LEASES, ApiClient, ApiError
from clickline.operator.job.fields import KubernetesObject

_log = logging.getLogger(__name__)
_TRUSTED_PART = 2 / 3
"""Of the duration: for so long after a renewal was sent, the holder takes the Lease for its own."""
_TRIES = 6
"""In one duration."""


class LeaseLostError(PeerError):
    """Another operator may be working by now."""


class LeaderLease:
    """The Lease, as one operator sees it."""

    def __init__(
        self,
        client: ApiClient,
        *,
        namespace: str,
        name: str,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._namespace, self._name, self._seconds = client, namespace, name, seconds
        self._clock = clock
        self.identity = f"{socket.gethostname()}_{secrets.token_hex(4)}"
        self._seen: tuple[str, str] | None = None
        self._seen_at = 0.0
        self._valid_until = float("-inf")

    @property
    def held(self) -> bool:
        return self._clock() < self._valid_until

    def check(self) -> None:
        """Raise LeaseLostError unless the Lease is held: called before each write."""
        if not self.held:
            raise LeaseLostError(f"the Lease {self._namespace}/{self._name} has run out, so nothing is written")

    async def acquire(self) -> None:
        """Wait until the Lease is held."""
        waiting = ""
        while True:
            try:
                holder = await self._try_once()
            except PeerError as error:
                holder = f"the API server ({error})"
            if not holder:
                _log.info("%s holds the Lease %s/%s", self.identity, self._namespace, self._name)
                return
            if holder != waiting:
                _log.info("standing by: the Lease %s/%s is held by %s", self._namespace, self._name, holder)
                waiting = holder
            await asyncio.sleep(self._seconds / _TRIES)

    async def keep(self) -> None:
        """Renew the Lease until cancelled; raises LeaseLostError when it could not be renewed in time."""
        while True:
            await asyncio.sleep(self._seconds / _TRIES)
            self.check()
            try:
                if holder := await self._try_once():
                    raise LeaseLostError(f"the Lease {self._namespace}/{self._name} is held by {holder} now")
            except LeaseLostError:
                raise
            except PeerError as error:
                _log.warning("the Lease could not be renewed: %s", error)

    async def release(self) -> None:
        """Let another one have the Lease at once."""
        if not self.held:
            return
        # No write from here on, whatever becomes of the request.
        self._valid_until = float("-inf")
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
            if (lease.get("spec") or {}).get("holderIdentity") == self.identity:
                lease["spec"]["holderIdentity"] = ""
                await self._client.replace(LEASES, lease)
        except PeerError as error:
            _log.warning("the Lease could not be released: %s", error)

    async def _try_once(self) -> str:
        """Take or renew the Lease; who holds it otherwise."""
        # From before the request: the API server may have written long before its answer comes, and others count from
        # what it wrote.
        sent_at = self._clock()
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except ApiError as error:
            if not error.is_missing:
                raise
            lease = {
                "apiVersion": LEASE_VERSION,
                "kind": "Lease",
                "metadata": {"namespace": self._namespace, "name": self._name},
            }
        spec: KubernetesObject = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired(spec):
            return str(holder)
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        taken = {} if holder == self.identity else {"acquireTime": now}
        lease["spec"] = {
            **spec,
            **taken,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "renewTime": now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + bool(taken),
        }
        try:
            # With the version that was read: of two who take it at once, one is refused.
            if "resourceVersion" in lease["metadata"]:
                await self._client.replace(LEASES, lease)
            else:
                await self._client.create(lease)
        except ApiError as error:
            if not error.is_conflict:
                raise
            return "another operator, since now"
        self._valid_until = sent_at + self._seconds * _TRUSTED_PART
        return ""

    def _expired(self, spec: KubernetesObject) -> bool:
        """Whether the holder has not renewed it for the whole duration, by the clock of this process alone."""
        state = (str(spec.get("holderIdentity")), str(spec.get("renewTime")))
        # `renewTime` is by the holder's clock, which may be wrong: it only shows that there was a renewal.
        if state != self._seen:
            self._seen, self._seen_at = state, self._clock()
        duration = max(self._seconds, float(spec.get("leaseDurationSeconds") or 0))
        return self._clock() - self._seen_at > duration
