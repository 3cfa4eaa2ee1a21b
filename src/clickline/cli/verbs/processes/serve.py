"""`clickline serve`: predictions over HTTP and gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import say

if TYPE_CHECKING:
    from clickline.serve.serve_settings import ServeConfig

_LAYOUTS = "layouts:"


def serve(
    store: Annotated[
        str | None,
        typer.Argument(metavar="[STORE]", help="Directory or URL of a model's versions.", show_default=False),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="YAML, for several models, splits, limits, TLS; see the guide."),
    ] = None,
    cube: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESSES|FILE|layouts:FILE",
            help="Rows come from this cube: shards with ; between, replicas with , between, a cube.conf, or "
            "layouts:FILE. Otherwise they are looked up in the store's own files.",
            show_default=False,
        ),
    ] = None,
    cube_name: Annotated[str, typer.Option(metavar="NAME", help="Of the cube's dictionary.")] = "cube",
    name: Annotated[str, typer.Option(help="Of the model.")] = "ctr",
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one. 127.0.0.1:8010 if not given."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes that share the port; 1 if not given.")
    ] = None,
    stall_after: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=3600,
            metavar="SECONDS",
            help="One of several workers that stands still for so long is killed and started again; 10 if not given, "
            "0: never.",
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option("--ready-file", metavar="FILE", help="Written when it can answer: where, as JSON.")
    ] = None,
) -> None:
    """Serve predictions: raw features in, probabilities out, with the version that made them.

    New versions are taken as they are published. Beyond loopback it needs CLICKLINE_TOKEN or client certificates.
    docs/serving.md has the rest. Ctrl+C or SIGTERM finishes what runs and ends it.

    Example: clickline serve versions/demo --name ctr --listen 127.0.0.1:8010 --workers 2
    """
    from clickline.cli.shared.services import same_port
    from clickline.launch.predictor_processes import serve as serve_until_told
    from clickline.net.addresses import listen_address
    from clickline.processes.logs import set_up

    settings = _settings(store, config, cube, cube_name, name, listen, workers, stall_after=stall_after)
    host, port = listen_address(settings.listen)
    set_up("serve", 0)
    serve_until_told(
        settings,
        host=host,
        port=same_port(port, ready_file),
        ready=ready_file,
        on_listening=lambda address: say(f"listening at {address}, workers: {settings.workers}"),
    )


def _settings(
    store: str | None,
    config: Path | None,
    cube: str | None,
    cube_name: str,
    name: str,
    listen: str | None,
    workers: int | None,
    *,
    stall_after: float | None = None,
) -> ServeConfig:
    from clickline.config.loading.reader import checked_settings
    from clickline.errors import JobError
    from clickline.serve.serve_settings import ServeConfig, read_serve_config

    if (store is None) == (config is None):
        raise JobError("name what to serve: either a store, such as versions/demo, or --config with a file")
    if config is not None and cube is not None:
        raise JobError(f"--cube belongs to a store; in {config} it is the key models.NAME.cube")
    options = {"listen": listen, "workers": workers, "stall_after": stall_after}
    changes = {key: value for key, value in options.items() if value is not None}
    if config is not None:
        return read_serve_config(config).model_copy(update=changes)
    model: dict[str, object] = {"store": store}
    if cube is not None and cube.startswith(_LAYOUTS):
        model["cube"] = {"layouts": cube.removeprefix(_LAYOUTS), "name": cube_name}
    elif cube is not None:
        model["cube"] = {"servers": _servers(cube), "name": cube_name}
    return checked_settings({"models": {name: model}, **changes}, ServeConfig, source="clickline serve")


def _servers(cube: str) -> list[list[str]] | str:
    from clickline.net.addresses import addresses_of

    if Path(cube).is_file():
        return cube
    return [addresses_of(part, source="--cube") for part in cube.split(";")]
