"""`clickline fileserver`: a directory over HTTP."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import say, say_note
from clickline.cli.shared.services import Ready


def fileserver(
    root: Annotated[Path, typer.Option("--root", metavar="DIRECTORY", help="What to serve.", show_default=False)],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes a free one.")] = "127.0.0.1:8080",
    upload_limit: Annotated[
        int | None, typer.Option(metavar="BYTES", min=0, help="Largest file to take; 64 GiB if not given.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token for uploads, if CLICKLINE_TOKEN is not set.")
    ] = None,
    ready_file: Ready = None,
) -> None:
    """Serve a directory over HTTP: listings, downloads with ranges and checksums; uploads for who has the token.

    The token is what CLICKLINE_TOKEN holds, or the file that --token-file or CLICKLINE_TOKEN_FILE names; without one,
    nothing can be uploaded. docs/file-server.md has the rest. Ctrl+C stops it.

    Example: clickline fileserver --root /data --listen 0.0.0.0:8080
    """
    from clickline.cli.shared.services import same_port
    from clickline.files.json_state import write_state
    from clickline.fileserver.file_server import UPLOAD_LIMIT, FileServer
    from clickline.net.addresses import listen_address
    from clickline.net.tokens import read_token
    from clickline.processes.child import stopped_by_signals
    from clickline.processes.heartbeats.heartbeat import Heartbeat
    from clickline.processes.logs import set_up
    from clickline.processes.open_files import raise_open_file_limit

    environment = dict(os.environ)
    if token_file is not None:
        environment["CLICKLINE_TOKEN_FILE"] = str(token_file)
    named = environment.get("CLICKLINE_TOKEN") or environment.get("CLICKLINE_TOKEN_FILE")
    set_up("fileserver", 0)
    raise_open_file_limit()
    limit = UPLOAD_LIMIT if upload_limit is None else upload_limit
    if ready_file is not None:
        host, port = listen_address(listen)
        listen = f"[{host}]:{same_port(port, ready_file)}"
    server = FileServer(root, listen=listen, token=read_token(environment) if named else None, upload_limit=limit)
    server.on_turn = Heartbeat.inherited().beat
    with stopped_by_signals():
        try:
            # From here on connections are queued until the server runs, so the ready file may be written before.
            server.bind()
            if ready_file is not None:
                write_state(ready_file, {"pid": os.getpid(), "http": server.address})
            say(f"serving {server.root.path} at {server.address}, uploads {'with the token' if named else 'off'}")
            server.run()
        except KeyboardInterrupt:  # being told to stop is how a server ends
            say_note("stopped")
        finally:
            server.close()
