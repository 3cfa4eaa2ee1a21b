"""`clickline cube`: serve a shard, read from a cube, measure it, roll it back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from clickline.cli.shared.output import AsJson, print_json, results, say
from clickline.cli.shared.services import Open, Ready

app = typer.Typer(help="Serve a shard of a cube, read from one, measure it.", no_args_is_help=True)
Name = Annotated[str, typer.Option(help="Of the dictionary, as transfer names it.")]
Servers = Annotated[
    str,
    typer.Option(
        "--servers",
        metavar="ADDRESSES|FILE",
        help="Shards with ; between, replicas with , between: tcp:a:1,tcp:b:1;tcp:c:1,… Or a cube.conf.",
        show_default=False,
    ),
]


@app.command()
def serve(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Its deploy path.", show_default=False)],
    name: Name = "cube",
    listen: Annotated[str, typer.Option(metavar="ADDRESS", help="tcp:HOST:PORT or unix:/PATH.")] = "tcp:127.0.0.1:8027",
    shard: Annotated[
        str, typer.Option(metavar="N|POD", help="Which shard this is; or the name of its pod, whose ordinal tells.")
    ] = "0",
    shards: Annotated[int, typer.Option(min=1, max=4096, help="How many there are.")] = 1,
    keep: Annotated[
        int, typer.Option(min=1, help="Versions that stay loaded: the one in service and those before.")
    ] = 3,
    memory: Annotated[bool, typer.Option("--memory", help="Read into memory instead of mapping files.")] = False,
    http: Annotated[str, typer.Option(metavar="HOST:PORT|off", help="The gateway.")] = "127.0.0.1:8028",
    open_to_all: Open = False,
    ready_file: Ready = None,
) -> None:
    """Serve one shard: rows over the wire, Cube's paths over HTTP. The token is CLICKLINE_TOKEN's.

    What is in service survives a restart. An agent (`clickline agent`) brings new versions.

    Example: clickline cube serve /cube --name ctr --shard 0 --shards 2 --listen tcp:0.0.0.0:8027
    """
    from clickline.cli.shared.services import run_service, same_port
    from clickline.compat.cube.http.server_routes import server_routes
    from clickline.cube.layouts.layout import shard_of_pod
    from clickline.cube.server.cube_process import CubeOptions, CubeProcess
    from clickline.net.addresses import listen_address

    number = shard_of_pod(shard, shards=shards)
    host, port = ("127.0.0.1", None) if http == "off" else listen_address(http)

    def make(token: bytes) -> Any:
        options = CubeOptions(
            name=name,
            directory=directory,
            token=token,
            address=listen,
            shard=number,
            shards=shards,
            keep=keep,
            memory=memory,
            http_host=host,
            http_port=None if port is None else same_port(port, ready_file),
            open_gateway=open_to_all,
            ready=ready_file,
        )
        return CubeProcess(options, routes=server_routes)

    run_service("cube", number, make)


@app.command()
def get(
    table: Annotated[str, typer.Argument(help="The table to read.", show_default=False)],
    keys: Annotated[list[int], typer.Argument(metavar="KEY…", help="64-bit keys.", show_default=False)],
    servers: Servers,
    name: Name = "cube",
    version: Annotated[int | None, typer.Option(help="Which one; else the one in service.")] = None,
    as_json: AsJson = False,
) -> None:
    """Read rows. Exit code 1 if a key has none, 7 if a shard could not be asked.

    Example: clickline cube get embedding 12 34 --name ctr --servers 'tcp:10.0.0.1:8027;tcp:10.0.0.2:8027'
    """
    from clickline.cube.cube_client import FOUND, OK
    from clickline.errors import PeerError

    with _connected(servers, name) as cube:
        rows = cube.get(table, keys, version=version)
    if rows.code != OK:
        raise PeerError(f"some shards could not be asked: {'; '.join(rows.errors)}")
    shown = []
    for index, key in enumerate(keys):
        ok = bool(rows.status[index] == FOUND)
        row = rows.decoded()[index].tolist() if ok and rows.dtype else rows.value(index).hex() if ok else None
        shown.append({"key": key, "found": ok, "value": row})
    if as_json:
        print_json({"version": rows.version, "dtype": rows.dtype, "dim": rows.dim, "rows": shown})
    else:
        say(f"version {rows.version}")
        for one in shown:
            say(f"{one['key']}: {one['value'] if one['found'] else 'no such key'}")
    if not all(one["found"] for one in shown):
        raise typer.Exit(1)


@app.command()
def bench(
    table: Annotated[str, typer.Argument(help="The table to read.", show_default=False)],
    servers: Servers,
    name: Name = "cube",
    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="FILE", help="Keys to draw from, one on each line.")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Keys of a request.")] = 500,
    threads: Annotated[int, typer.Option(min=1, help="Readers.")] = 1,
    requests: Annotated[int, typer.Option(min=1, help="Of each reader.")] = 1000,
    hedge: Annotated[float, typer.Option(min=0, help="Seconds until another replica is asked, too; 0: never.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Read as fast as it goes: latency on average and at 50, 80, 90, 99 and 99.9 per cent, requests per second.

    Example: clickline cube bench embedding --servers tcp:127.0.0.1:8027 --keys keys.txt --batch 100 --threads 2
    """
    import numpy as np

    from clickline.cube.cube_bench import bench as measure
    from clickline.errors import DataError

    if keys is None:
        drawn = np.arange(1, 1_000_001, dtype=np.uint64)
    else:
        try:
            drawn = np.array([int(line) for line in keys.read_text(encoding="utf-8").split()], np.uint64)
        except (OSError, ValueError, OverflowError) as error:
            raise DataError(f"{keys}: keys cannot be read: {error}") from None
        if not len(drawn):
            raise DataError(f"{keys}: no keys in it")
    with _connected(servers, name, hedge=hedge) as cube:
        measured = measure(cube, table, drawn, batch=batch, threads=threads, requests=requests)
    if as_json:
        print_json(measured)
        return
    shown = Table("what", "value")
    for key, value in measured["microseconds"].items():
        shown.add_row(key if key == "avg" else f"{key} %", f"{value:,.1f} us")
    for label, number in (
        ("qps", measured["qps"]),
        ("keys_per_second", measured["keys_per_second"]),
        ("requests", measured["requests"]),
        ("failed", measured["failed"]),
        ("missing_keys", measured["missing_keys"]),
    ):
        shown.add_row(label, f"{number:,}")
    results().print(shown)


@app.command()
def rollback(
    transfer: Annotated[str, typer.Argument(metavar="URL", help="Transfer's address.", show_default=False)],
    version: Annotated[int, typer.Option(help="Which one; 0: the one before.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Switch all servers back to a version that is still loaded. It stays until a newer one is published.

    Example: clickline cube rollback http://10.0.0.5:8099
    """
    import httpx

    from clickline.errors import PeerError
    from clickline.net.tokens import read_token

    headers = {"Authorization": f"Bearer {read_token(os.environ).decode()}"}
    try:
        with httpx.Client(trust_env=False, timeout=30.0) as client:
            answer = client.post(f"{transfer.rstrip('/')}/rollback", json={"version": version}, headers=headers).json()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise PeerError(f"{transfer}: {error}") from None
    if answer.get("success") != "0":
        raise PeerError(f"{transfer}: {answer.get('message')}")
    if as_json:
        print_json(answer["data"])
    else:
        say(f"version {answer['data']['version']} is in service, {answer['data']['seconds']:.3f} s")
    if answer["data"]["behind"]:
        raise PeerError(f"not yet on {', '.join(answer['data']['behind'])}")


def _connected(servers: str, name: str, **options: Any) -> Any:
    from clickline.compat.cube.cube_conf import connect_by_conf
    from clickline.cube.cube_client import Cube
    from clickline.net.addresses import addresses_of
    from clickline.net.tokens import read_token

    token = read_token(os.environ)
    if Path(servers).is_file():
        return connect_by_conf(servers, name="" if name == "cube" else name, token=token)
    shards = [addresses_of(part, source="--servers") for part in servers.split(";")]
    return Cube.connect(shards, name=name, token=token, **options)
