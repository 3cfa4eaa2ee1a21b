"""Decision 19: our file server and starlette's. `make decision-file_ranges` runs it.

A file of 64 MiB in the page cache, over TCP loopback, one client: all of it, a range of 1 MiB, and a condition that
says that nothing has changed. Both servers are uvicorn with one process.

    clickline fileserver      ranges, conditions, digests, limits on silent connections
    starlette                 StaticFiles, whose answers are FileResponse

    file_ranges.py serve PORT DIRECTORY         starlette's side, until it is killed
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import uvicorn
from starlette.staticfiles import StaticFiles

from clickline.launch.local.local_processes import free_ports
from closed_loop import measured, request_bytes
from decision_table import DecisionTable, Options, options
from peers import PeerError, scratch

SIZE, PART = 64 << 20, 1 << 20
NAME = "rows.dict"
COLUMNS = ("whole file, MB/s", "range of 1 MiB, µs", "not modified, µs")
START = 30.0


def serve(port: int, directory: str) -> None:
    uvicorn.run(
        StaticFiles(directory=directory),
        host="127.0.0.1",
        port=port,
        log_level="error",
        access_log=False,
        loop="uvloop",
    )


@contextmanager
def serving(command: list[str], url: str) -> Iterator[str]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            give_up = time.monotonic() + START
            while not _answers(url):
                if time.monotonic() > give_up or process.poll() is not None:
                    raise PeerError(f"{' '.join(command)} does not answer at {url}")
                time.sleep(0.05)
            yield url
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        return httpx.head(f"{url}/{NAME}", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def figures(url: str, seconds: float) -> dict[str, float]:
    tag = httpx.head(f"{url}/{NAME}", trust_env=False).headers["etag"]
    ask = partial(request_bytes, "GET", f"{url}/{NAME}")
    loop = partial(measured, url, clients=1, seconds=seconds / 3)
    whole = loop(ask())
    part = loop(ask(headers={"Range": f"bytes={PART}-{2 * PART - 1}"}), expected=b"206")
    same = loop(ask(headers={"If-None-Match": tag}), expected=b"304")
    return dict(zip(COLUMNS, (whole["requests/s"] * SIZE / 1e6, part["p50 µs"], same["p50 µs"]), strict=True))


def run(given: Options) -> None:
    table = DecisionTable("0019-our-own-file-ranges.md", COLUMNS)
    own, other = free_ports("127.0.0.1", 2)
    with scratch() as directory:
        (directory / NAME).write_bytes(os.urandom(1 << 20) * (SIZE >> 20))
        clickline = [
            sys.executable,
            "-m",
            "clickline",
            "fileserver",
            "--root",
            str(directory),
            "--listen",
            f"127.0.0.1:{own}",
        ]
        starlette = [sys.executable, str(Path(__file__)), "serve", str(other), str(directory)]
        with (
            serving(clickline, f"http://127.0.0.1:{own}") as first,
            serving(starlette, f"http://127.0.0.1:{other}") as second,
        ):
            urls = {"clickline fileserver": first, "starlette": second}
            contenders = {name: partial(figures, url, given.seconds) for name, url in urls.items()}
            table.alternate(contenders, rounds=given.rounds)
    table.finish(write=given.write)


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]), sys.argv[3])
    else:
        run(options(__doc__, seconds=3.0))
