"""A cube server is alive if it answers on its own socket, and not because its process is there."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from clickline import _native
from clickline.cube import wire_probe
from clickline.cube.server.cube_commands import ALIVE, CubeCommands
from clickline.cube.wire_probe import WireProbe
from clickline.errors import PeerError

TOKEN = b"a token of this test"


@pytest.fixture(params=["unix", "tcp"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"unix:{tmp_path}/s" if request.param == "unix" else "tcp:127.0.0.1:0"


@pytest.fixture
def server(address: str) -> Iterator[_native.CubeServer]:
    found = _native.CubeServer(
        address, name="cube.0", job="ctr", token=TOKEN, handler=lambda *_: b"null", max_connections=2
    )
    yield found
    found.close()


def test_a_server_answers_until_it_is_closed(server: _native.CubeServer) -> None:
    probe = WireProbe(server.address, name="ctr", token=TOKEN)
    assert probe.answers()
    assert probe.answers()
    server.close()
    assert not probe.answers()
    probe.close()


def test_one_that_has_as_many_connections_as_it_takes_is_well(server: _native.CubeServer) -> None:
    probe = WireProbe(server.address, name="ctr", token=TOKEN)
    assert probe.answers()
    with CubeCommands(server.address, name="ctr", token=TOKEN, patience=5.0) as other:
        other.call(ALIVE)
        with (
            pytest.raises(PeerError, match="no room"),
            CubeCommands(server.address, name="ctr", token=TOKEN, patience=0.0) as third,
        ):
            third.call(ALIVE)
        assert probe.answers()
    probe.close()


def test_a_socket_that_nobody_accepts_from_is_not_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(wire_probe, "PATIENCE", 0.2)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        probe = WireProbe(f"unix:{tmp_path}/s", name="ctr", token=TOKEN)
        assert not probe.answers()
        probe.close()


def test_a_handler_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is greeted still: greetings need no handler."""
    monkeypatch.setattr(wire_probe, "PATIENCE", 0.2)
    go = socket.socketpair()

    def hang(*_: object) -> bytes:
        go[0].recv(1)
        return b"null"

    server = _native.CubeServer(f"unix:{tmp_path}/s", name="cube.0", job="ctr", token=TOKEN, handler=hang)
    probe = WireProbe(server.address, name="ctr", token=TOKEN)
    try:
        assert not probe.answers()
    finally:
        go[1].close()  # which lets them go
        probe.close()
        server.close()
        go[0].close()
