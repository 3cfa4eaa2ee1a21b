"""`clickline transfer`: watch for versions, build them, deliver them to all servers of a cube."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from clickline.cli.shared.services import Open, Ready


def transfer(
    config: Annotated[
        Path, typer.Argument(metavar="FILE", help="A YAML file, or Cube's transfer.conf.", show_default=False)
    ],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one.")] = "127.0.0.1:8099",
    interval: Annotated[
        float | None, typer.Option(min=0.01, metavar="SECONDS", help="Between looks at the donefile; else 10.")
    ] = None,
    wait: Annotated[
        float | None, typer.Option(min=0, metavar="SECONDS", help="For a server that is dead or fails; else 5.")
    ] = None,
    keep: Annotated[int | None, typer.Option(min=1, help="Builds to keep; else 3.")] = None,
    open_to_all: Open = False,
    ready_file: Ready = None,
) -> None:
    """Deliver versions: build, then all servers download, all load, all switch. Goes on where it was killed.

    A donefile on this machine is noticed within 0.2 seconds, others at the interval or at once by `POST /notify`. What
    is wrong with a new version is logged and told by `GET /status`; the one in service stays. docs/cube.md has all.

    Example: clickline transfer transfer.yaml --listen 0.0.0.0:8099
    """
    from clickline.cli.shared.services import run_service, same_port
    from clickline.compat.cube.http.meta_info import MetaInfoFiles
    from clickline.compat.cube.http.transfer_routes import transfer_routes
    from clickline.compat.cube.product_source import DonefileSource
    from clickline.compat.cube.transfer_conf import read_transfer
    from clickline.cube.transfer.transfer_process import TransferOptions, TransferProcess
    from clickline.cube.transfer.transfer_settings import plan_of
    from clickline.net.addresses import listen_address

    host, port = listen_address(listen)
    keys = read_transfer(config)
    plan = plan_of(keys, interval=interval, patience=wait, keep=keep, build_listener=MetaInfoFiles())
    source = DonefileSource(keys.donefile_address, table=keys.dict_name, bases_only=keys.mode == "base_only")

    def make(token: bytes) -> Any:
        options = TransferOptions(
            token=token,
            host=host,
            port=same_port(port, ready_file),
            wget_port=keys.wget_port,
            address=keys.transfer_address,
            open_to_all=open_to_all,
            ready=ready_file,
        )
        routes = partial(transfer_routes, wget_port=keys.wget_port)
        return TransferProcess(plan, source, options, routes=routes)

    run_service("transfer", 0, make)
