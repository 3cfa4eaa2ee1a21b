"""Transfer against agents that refuse, dawdle or lie: a refused switch is not reported as finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from clickline.cube.agent_messages import (
    COMMAND_PATH,
    SERVER_PATH,
    AgentReply,
    AgentReplyCode,
    AnyAgentCommand,
    CubeServerStatus,
    DownloadCommand,
    LoadCommand,
)
from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.layouts.layout import Replica, single_layout
from clickline.cube.layouts.layout_source import FixedLayouts
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.instance import InstanceState
from clickline.cube.transfer.ledger import Phase
from clickline.cube.transfer.transfer import Transfer
from clickline.errors import VersionError
from clickline.net.web_server import WebServer
from clickline.versions import maintenance
from clickline.versions.store import open_store
from support.eventually import eventually
from support.versions.version_stores import VersionStore, keys_from


class FakeAgent:
    """Executes commands at once, in memory; unless it refuses or waits."""

    def __init__(self) -> None:
        self.status = CubeServerStatus()
        self.refuses: set[str] = set()
        self.held = threading.Event()
        self.held.set()
        self.commands: list[str] = []
        self.looks = 0
        routes = [Route(SERVER_PATH, self._server), Route(COMMAND_PATH, self._command, methods=["POST"])]
        self.web = WebServer(Starlette(routes=routes), host="127.0.0.1", port=0)

    async def _server(self, _: Request) -> Response:
        self.looks += 1
        return Response(msgspec.json.encode(AgentReply(code=AgentReplyCode.DONE, server=self.status)))

    async def _command(self, request: Request) -> Response:
        command: AnyAgentCommand = msgspec.json.decode(await request.body(), type=AnyAgentCommand)
        return Response(msgspec.json.encode(await run_in_threadpool(self._run, command)))

    def _run(self, command: AnyAgentCommand) -> AgentReply:
        self.commands.append(command.verb)
        if command.verb in self.refuses:
            return AgentReply(code=AgentReplyCode.FAILED, message=f"{command.verb} refused")
        change: dict[str, Any]
        match command:
            case DownloadCommand():
                self.held.wait(20)
                change = {"complete": (*self.status.complete, command.version)}
            case LoadCommand():
                change = {"loaded": (*self.status.loaded, command.version)}
            case _:
                change = {"version": command.version, "number": command.number}
        self.status = msgspec.structs.replace(self.status, **change)
        return AgentReply(code=AgentReplyCode.DONE)


@pytest.fixture
def agents() -> Iterator[list[FakeAgent]]:
    found = [FakeAgent(), FakeAgent()]
    yield found
    for one in found:
        one.held.set()
        one.web.close()


@pytest.fixture
def transfer(tmp_path: Path, store: VersionStore, agents: list[FakeAgent]) -> Iterator[Transfer]:
    plan = TransferPlan(
        name="d",
        layouts=FixedLayouts(
            single_layout([[Replica(one.web.address, f"tcp:a:{n + 1}") for n, one in enumerate(agents)]])
        ),
        output=tmp_path / "builds",
        scratch=tmp_path / "state",
        patience=0.2,
    )
    source = PublishedSource(open_store(store.path))
    found = Transfer(plan, source, token=b"a token", url=lambda name: f"http://nowhere/{name}")
    found.start()
    yield found
    found.close()


def in_service(transfer: Transfer) -> int:
    return transfer.ledger.current.version if transfer.ledger.current and not transfer.ledger.rolling else 0


def until_looked_at_again(agent: FakeAgent, *, times: int = 4) -> None:
    """Each look is a step of whoever drives it: at that many, it would have done what it wants to do."""
    before = agent.looks
    eventually(lambda: agent.looks >= before + times)


def test_a_refused_switch_is_a_failed_instance_and_not_finished(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].refuses = {"switch"}
    version = store.base(keys_from(1, 10))
    eventually(
        lambda: transfer.instances[1].state is InstanceState.SWITCH_FAILED and agents[0].status.version == version
    )
    until_looked_at_again(agents[1])  # a quarter of a second each: longer than its patience with the dead
    assert transfer.ledger.rolling is not None
    assert (transfer.ledger.rolling.phase, transfer.ledger.past) == (Phase.SWITCHING, [])
    assert transfer.instances[1].message == "switch refused"
    agents[1].refuses = set()
    eventually(lambda: in_service(transfer) == version)
    assert agents[1].status.version == version


def test_a_newer_version_takes_the_place_of_one_that_is_stuck(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].refuses = {"switch"}
    store.base(keys_from(1, 10))
    eventually(lambda: transfer.instances[1].state is InstanceState.SWITCH_FAILED)
    version = store.base(keys_from(1, 20))
    eventually(lambda: agents[0].status.version == version)
    agents[1].refuses = set()
    eventually(lambda: in_service(transfer) == version)
    assert [(one.version, one.phase) for one in transfer.ledger.past] == [(1, Phase.SWITCHING), (2, Phase.FINISHED)]


def test_nothing_is_loaded_before_all_have_downloaded_nor_switched_before_all_have_loaded(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].held.clear()
    version = store.base(keys_from(1, 10))
    eventually(lambda: agents[0].commands == ["download"] and agents[1].commands == ["download"])
    until_looked_at_again(agents[1])
    until_looked_at_again(agents[0], times=1)
    assert agents[0].commands == ["download"]  # slow is not dead
    agents[1].refuses = {"load"}
    agents[1].held.set()
    eventually(lambda: agents[0].status.version == version)  # the other fails to load, and one is enough to serve
    assert agents[0].commands == ["download", "load", "switch"]
    assert agents[1].status.version == 0
    assert transfer.ledger.rolling is not None  # but it is alive, so this is not finished
    agents[1].refuses = set()
    eventually(lambda: in_service(transfer) == version and agents[1].status.version == version)


def test_a_rollback_does_not_wait_for_a_download(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    for count in (10, 20):
        version = store.base(keys_from(1, count))
        eventually(lambda version=version: in_service(transfer) == version)
    for agent in agents:
        agent.held.clear()
    store.base(keys_from(1, 30))
    eventually(lambda: all(agent.commands[-1] == "download" for agent in agents))
    result = transfer.rollback()
    assert result.seconds < 1.0
    # What was on its way had not been switched to, so this is one before the version in service.
    assert (result.version, [agent.status.version for agent in agents]) == (1, [1, 1])
    with pytest.raises(VersionError, match="no version 77 to go back to"):
        transfer.rollback(77)


def test_going_back_from_a_version_that_the_store_went_back_to_is_not_undone(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    """The store names version 1 again; somebody goes back from that, which is to version 2, and it stays."""
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        eventually(lambda: in_service(transfer) == version)  # noqa: B023
    maintenance.rollback(open_store(store.path), 1)
    eventually(lambda: in_service(transfer) == 1)
    assert transfer.rollback().version == 2
    assert transfer.ledger.held == 1
    transfer.notify()
    until_looked_at_again(agents[0])
    assert in_service(transfer) == 2
    version = store.base(keys_from(1, 20))
    eventually(lambda: in_service(transfer) == version)
    assert transfer.ledger.held == 0


def test_who_goes_back_and_forth_leaves_the_store_in_charge(transfer: Transfer, store: VersionStore) -> None:
    """Back from version 2 and forward again, so the store is followed: when it goes back itself, that counts."""
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        eventually(lambda: in_service(transfer) == version)  # noqa: B023
    assert transfer.rollback().version == 1
    assert transfer.rollback(2).version == 2
    assert transfer.ledger.held == 0
    maintenance.rollback(open_store(store.path), 1)
    eventually(lambda: in_service(transfer) == 1)


def test_who_goes_back_twice_is_held_against_what_the_store_names(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    for _ in range(3):
        version = store.base(keys_from(1, 10))
        eventually(lambda: in_service(transfer) == version)  # noqa: B023
    transfer.rollback(2)
    transfer.rollback(1)
    transfer.notify()
    until_looked_at_again(agents[0])
    assert (in_service(transfer), transfer.ledger.held) == (1, 3)
    maintenance.rollback(open_store(store.path), 2)
    eventually(lambda: in_service(transfer) == 2)


def test_a_store_that_goes_back_too_and_then_forward_is_followed(transfer: Transfer, store: VersionStore) -> None:
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        eventually(lambda: in_service(transfer) == version)  # noqa: B023
    transfer.rollback(1)
    maintenance.rollback(open_store(store.path), 1)
    eventually(lambda: transfer.ledger.held == 0)
    maintenance.rollback(open_store(store.path), 2)
    eventually(lambda: in_service(transfer) == 2)
