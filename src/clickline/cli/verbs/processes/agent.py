"""`clickline agent`: beside a cube server, brings it versions and tells it to serve them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from clickline.cli.shared.services import Open, Ready


def agent(
    deploy: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="The server's deploy path.", show_default=False)],
    cube: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The server; if not given, the port that commands name, on this host."),
    ] = "",
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one.")] = "127.0.0.1:8001",
    rate: Annotated[float, typer.Option(min=0, metavar="MB/S", help="Downloads no faster; 0: as fast as it goes.")] = 0,
    largest: Annotated[float, typer.Option(min=0.001, metavar="GB", help="Largest file to take.")] = 1000.0,
    open_to_all: Open = False,
    ready_file: Ready = None,
) -> None:
    """Run the agent of a cube server: downloads, loads, switches and checks what transfer tells it to.

    Commands need the token, CLICKLINE_TOKEN's, as `Authorization: Bearer …`. docs/reference/cube-http.md has them.

    Example: clickline agent /cube --cube tcp:127.0.0.1:8027 --listen 0.0.0.0:8001 --rate 100
    """
    from clickline.cli.shared.services import run_service, same_port
    from clickline.compat.cube.http.agent_routes import agent_routes
    from clickline.cube.agent.agent import AgentOptions
    from clickline.cube.agent.agent_process import AgentProcess
    from clickline.net.addresses import address_of, listen_address

    host, port = listen_address(listen)

    def make(token: bytes) -> Any:
        options = AgentOptions(
            deploy=deploy,
            token=token,
            cube=address_of(cube, source="--cube") if cube else "",
            host=host,
            port=same_port(port, ready_file),
            open_to_all=open_to_all,
            rate=rate * 1e6,
            largest=int(largest * 1e9),
            ready=ready_file,
        )
        return AgentProcess(options, routes=agent_routes)

    run_service("agent", 0, make)
