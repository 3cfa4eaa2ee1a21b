"""Settings of a cube's members, as transfer.yaml, serve.yaml and a file of layouts have them.

Listed, the replicas of each shard:

    shards:
      - [{agent: "http://10.0.0.1:8001", cube: "tcp:10.0.0.1:8027", deploy_path: /cube}]

Or found by the names that a headless service of Kubernetes gives to its pods:

    service:
      cube: "tcp:cube-{ordinal}.cube.shop.svc.cluster.local:8027"
      agent: "http://cube-{ordinal}.cube.shop.svc.cluster.local:8001"
      shards: 2
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

import httpx
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from clickline.config.section import Section
from clickline.cube.layouts.layout import MOST_REPLICAS, MOST_SHARDS, Replica, ordinal_of

Text = Annotated[str, Field(min_length=1, max_length=1000)]
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KNOWN = {"shard", "replica", "ordinal"}


class ReplicaSettings(Section):
    """A server of the cube and the agent beside it."""

    agent: Text
    """Address of the agent, `http://HOST:PORT` or `HOST:PORT`."""
    cube: Text
    """Address of the cube server on the wire: `tcp:HOST:PORT` or `unix:/PATH`."""
    deploy_path: str = ""
    """Directory of the deployment on that machine; empty: the one that the agent was started with."""

    @field_validator("agent")
    @classmethod
    def _is_an_address(cls, value: str) -> str:
        try:
            httpx.URL(agent_url(value))
            urlsplit(agent_url(value))
        except (ValueError, httpx.InvalidURL):
            raise PydanticCustomError("agent_address", "must be an address such as http://10.0.0.1:8001") from None
        return value


ListedReplicas = Annotated[list[ReplicaSettings], Field(min_length=1, max_length=1024)]


class ServiceSettings(Section):
    """Members that are found by name. `{shard}`, `{replica}` and `{ordinal}` stand for a member's numbers.

    The ordinal is replica × shards + shard.
    """

    cube: Text
    """Address of a cube server on the wire, such as `tcp:cube-{ordinal}.cube:8027`."""
    agent: str = ""
    """Address of the agent beside it, such as `http://cube-{ordinal}.cube:8001`; transfer needs it."""
    shards: Annotated[int, Field(ge=1, le=MOST_SHARDS)]
    """How many there are."""
    replicas: Annotated[int, Field(ge=1, le=MOST_REPLICAS)] | None = None
    """Of each shard; if not given, as many as have names that resolve."""
    deploy_path: str = ""
    """Directory of the deployment; empty: the one that the agent was started with."""

    @field_validator("cube", "agent")
    @classmethod
    def _tells_members_apart(cls, value: str) -> str:
        names = set(_PLACEHOLDER.findall(value))
        if value and (names - _KNOWN or not (names >= {"shard", "replica"} or "ordinal" in names)):
            text = "must have {ordinal}, or {shard} and {replica}, such as tcp:cube-{ordinal}.cube:8027"
            raise PydanticCustomError("member_names", text)
        return value

    def replica(self, *, shard: int, replica: int) -> Replica:
        """A member, be it there or not."""
        ordinal = ordinal_of(shard=shard, replica=replica, shards=self.shards)
        numbers = {"shard": shard, "replica": replica, "ordinal": ordinal}

        def named(text: str) -> str:
            return _PLACEHOLDER.sub(lambda found: str(numbers[found[1]]), text)

        return Replica(agent_url(named(self.agent)) if self.agent else "", named(self.cube), self.deploy_path)


def replica_of(settings: ReplicaSettings) -> Replica:
    return Replica(agent=agent_url(settings.agent), cube=settings.cube, deploy_path=settings.deploy_path)


def agent_url(agent: str) -> str:
    """The URL of an agent that may be written as HOST:PORT."""
    return agent.rstrip("/") if agent.startswith(("http://", "https://")) else f"http://{agent}"
