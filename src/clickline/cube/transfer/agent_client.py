"""Transfer's connection to one agent: commands out, replies judged by their code."""

from __future__ import annotations

import httpx
import msgspec

from clickline.cube.agent_messages import (
    COMMAND_PATH,
    SERVER_PATH,
    AgentReply,
    AgentReplyCode,
    AnyAgentCommand,
    CubeServerStatus,
)
from clickline.errors import PeerError, VersionError
from clickline.files.typed_json import decode_json

# A large download takes longer: `run` then reports the agent as busy, and the command is sent again.
_TIMEOUT = httpx.Timeout(120.0, connect=2.0)


class AgentBusyError(Exception):
    """Raised when the agent is still executing a command that was given before."""


class DamagedBuildError(VersionError):
    """Raised when an agent got something else than the file that it was sent to fetch."""


class AgentClient:
    """Sends commands to the agent of one instance."""

    def __init__(self, url: str, *, name: str, token: bytes) -> None:
        """`name` is that of the dictionary."""
        self._url, self._name = url, name
        headers = {"Authorization": f"Bearer {token.decode()}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def server_status(self) -> CubeServerStatus:
        """What the agent's server reports of itself. Raises PeerError if agent or server cannot be reached."""
        request = self._client.build_request("GET", SERVER_PATH, params={"name": self._name})
        try:
            reply = self._send(request)
        except httpx.ReadTimeout:
            raise PeerError(f"{self._url}{SERVER_PATH}: no answer") from None
        if reply.code is not AgentReplyCode.DONE or reply.server is None:
            raise PeerError(reply.message)
        return reply.server

    def run(self, command: AnyAgentCommand) -> None:
        """Execute a command. Raises VersionError if it is refused, PeerError if the agent cannot be reached."""
        content = msgspec.json.encode(command)
        headers = {"Content-Type": "application/json"}
        try:
            reply = self._send(self._client.build_request("POST", COMMAND_PATH, content=content, headers=headers))
        except httpx.ReadTimeout:
            # The agent goes on with it; asked again, it says that it is busy, or that all is done already.
            raise AgentBusyError from None
        if reply.code is AgentReplyCode.BUSY:
            raise AgentBusyError
        if reply.code is AgentReplyCode.DAMAGED:
            raise DamagedBuildError(reply.message)
        if reply.code is not AgentReplyCode.DONE:
            raise VersionError(reply.message)

    def _send(self, request: httpx.Request) -> AgentReply:
        where = f"{self._url}{request.url.path}"
        try:
            answer = self._client.send(request)
        except httpx.ReadTimeout:
            raise
        except httpx.HTTPError as error:
            raise PeerError(f"{where}: {type(error).__name__}: {error}") from None
        except RuntimeError as error:  # the client was closed meanwhile
            raise PeerError(f"{where}: {error}") from None
        try:
            return decode_json(answer.content, AgentReply)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise PeerError(f"{where}: HTTP {answer.status_code}, and its reply cannot be read: {error}") from None
