"""Transfer against agents that refuse, dawdle or lie: a refused switch is not reported as finished."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from clickline.cube.builds import TransferPlan
from clickline.cube.instances import Replica
from clickline.cube.sources import PublishedSource
from clickline.cube.transferring import Transfer
from clickline.cube.webserving import WebServer
from clickline.errors import VersionError
from clickline.publish import versions
from clickline.publish.stores import open_store
from version_stores import VersionStore, keys_from
from wire_peers import until


class FakeAgent:
    """Does what it is told, at once, in a dictionary; unless it refuses or waits."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {"version": 0, "number": 0, "loaded": [], "complete": []}
        self.refuses: set[str] = set()
        self.held = threading.Event()
        self.held.set()
        self.commands: list[str] = []
        self.looks = 0
        routes = [Route("/agent/cube", self._cube), Route("/agent/cmd", self._command, methods=["POST"])]
        self.web = WebServer(Starlette(routes=routes), host="127.0.0.1", port=0)

    async def _cube(self, _: Request) -> Response:
        self.looks += 1
        return JSONResponse({"success": "0", "message": "query ok", "data": self.state})

    async def _command(self, request: Request) -> Response:
        return await run_in_threadpool(self._do, await request.json())

    def _do(self, asked: dict[str, Any]) -> Response:
        command, version = asked["command"], int(asked["version"])
        self.commands.append(command)
        if command in self.refuses:
            return JSONResponse({"success": "255", "message": f"{command} refused", "data": ""})
        if command == "download":
            self.held.wait(20)
            self.state = {**self.state, "complete": [*self.state["complete"], version]}
        elif command == "reload":
            self.state = {**self.state, "loaded": [*self.state["loaded"], version]}
        else:
            self.state = {**self.state, "version": version, "number": asked["number"]}
        return JSONResponse({"success": "0", "message": "query ok", "data": ""})


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
        replicas=[[Replica(one.web.address, f"tcp:a:{n + 1}") for n, one in enumerate(agents)]],
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
    until(lambda: agent.looks >= before + times)


def test_a_refused_switch_is_a_failed_instance_and_not_finished(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].refuses = {"enable"}
    version = store.base(keys_from(1, 10))
    until(lambda: transfer.instances[1].state == "Enable_Failed" and agents[0].state["version"] == version)
    until_looked_at_again(agents[1])  # a quarter of a second each: longer than its patience with the dead
    assert transfer.ledger.rolling is not None
    assert (transfer.ledger.rolling.phase, transfer.ledger.past) == ("Enabling", [])
    assert transfer.instances[1].message == "enable refused"
    agents[1].refuses = set()
    until(lambda: in_service(transfer) == version)
    assert agents[1].state["version"] == version


def test_a_newer_version_takes_the_place_of_one_that_is_stuck(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].refuses = {"enable"}
    store.base(keys_from(1, 10))
    until(lambda: transfer.instances[1].state == "Enable_Failed")
    version = store.base(keys_from(1, 20))
    until(lambda: agents[0].state["version"] == version)
    agents[1].refuses = set()
    until(lambda: in_service(transfer) == version)
    assert [(one.version, one.phase) for one in transfer.ledger.past] == [(1, "Enabling"), (2, "Finished")]


def test_nothing_is_loaded_before_all_have_downloaded_nor_switched_before_all_have_loaded(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    agents[1].held.clear()
    version = store.base(keys_from(1, 10))
    until(lambda: agents[0].commands == ["download"] and agents[1].commands == ["download"])
    until_looked_at_again(agents[1])
    until_looked_at_again(agents[0], times=1)
    assert agents[0].commands == ["download"]  # slow is not dead
    agents[1].refuses = {"reload"}
    agents[1].held.set()
    until(lambda: agents[0].state["version"] == version)  # the other fails to load, and one is enough to serve
    assert agents[0].commands == ["download", "reload", "enable"]
    assert agents[1].state["version"] == 0
    assert transfer.ledger.rolling is not None  # but it is alive, so this is not finished
    agents[1].refuses = set()
    until(lambda: in_service(transfer) == version and agents[1].state["version"] == version)


def test_a_rollback_does_not_wait_for_a_download(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    for count in (10, 20):
        version = store.base(keys_from(1, count))
        until(lambda version=version: in_service(transfer) == version)
    for agent in agents:
        agent.held.clear()
    store.base(keys_from(1, 30))
    until(lambda: all(agent.commands[-1] == "download" for agent in agents))
    answer = transfer.rollback()
    assert answer["seconds"] < 1.0
    # What was on its way had not been switched to, so this is one before the version in service.
    assert (answer["version"], [agent.state["version"] for agent in agents]) == (1, [1, 1])
    with pytest.raises(VersionError, match="no version 77 to go back to"):
        transfer.rollback(77)


def test_going_back_from_a_version_that_the_store_went_back_to_is_not_undone(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    """The store names version 1 again; somebody goes back from that, which is to version 2, and it stays."""
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        until(lambda: in_service(transfer) == version)  # noqa: B023
    versions.rollback(open_store(store.path), 1)
    until(lambda: in_service(transfer) == 1)
    assert transfer.rollback()["version"] == 2
    assert transfer.ledger.held == 1
    transfer.notify()
    until_looked_at_again(agents[0])
    assert in_service(transfer) == 2
    version = store.base(keys_from(1, 20))
    until(lambda: in_service(transfer) == version)
    assert transfer.ledger.held == 0


def test_who_goes_back_and_forth_leaves_the_store_in_charge(transfer: Transfer, store: VersionStore) -> None:
    """Back from version 2 and forward again, so the store is followed: when it goes back itself, that counts."""
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        until(lambda: in_service(transfer) == version)  # noqa: B023
    assert transfer.rollback()["version"] == 1
    assert transfer.rollback(2)["version"] == 2
    assert transfer.ledger.held == 0
    versions.rollback(open_store(store.path), 1)
    until(lambda: in_service(transfer) == 1)


def test_who_goes_back_twice_is_held_against_what_the_store_names(
    transfer: Transfer, store: VersionStore, agents: list[FakeAgent]
) -> None:
    for _ in range(3):
        version = store.base(keys_from(1, 10))
        until(lambda: in_service(transfer) == version)  # noqa: B023
    transfer.rollback(2)
    transfer.rollback(1)
    transfer.notify()
    until_looked_at_again(agents[0])
    assert (in_service(transfer), transfer.ledger.held) == (1, 3)
    versions.rollback(open_store(store.path), 2)
    until(lambda: in_service(transfer) == 2)


def test_a_store_that_goes_back_too_and_then_forward_is_followed(transfer: Transfer, store: VersionStore) -> None:
    for _ in range(2):
        version = store.base(keys_from(1, 10))
        until(lambda: in_service(transfer) == version)  # noqa: B023
    transfer.rollback(1)
    versions.rollback(open_store(store.path), 1)
    until(lambda: transfer.ledger.held == 0)
    versions.rollback(open_store(store.path), 2)
    until(lambda: in_service(transfer) == 2)
