"""`clickline fileserver` as a process: says where it is, takes its token from where nobody sees it, stops when told."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from support.processes import run

pytestmark = pytest.mark.heavy
SECRET = "not to be seen in any list of processes"  # noqa: S105


@contextmanager
def serving(root: Path, *arguments: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "clickline", "fileserver", "--root", str(root), "--listen", "127.0.0.1:0"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("CLICKLINE_")}
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True, env=clean | environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        yield process, found[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_when_it_is_told(root: Path, number: signal.Signals) -> None:
    with serving(root) as (process, address):
        assert httpx.get(address + "/slot.conf").text == "slots: 26\n"
        process.send_signal(number)
        assert process.wait(20) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(address)


def test_the_token_comes_from_a_file_or_the_environment(root: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(SECRET + "\n")
    authorised = {"Authorization": f"Bearer {SECRET}"}
    with serving(root, "--token-file", str(tmp_path / "token"), "--upload-limit", "5") as (_, address):
        assert httpx.put(address + "/new", content=b"12345", headers=authorised).status_code == 201
        assert httpx.put(address + "/more", content=b"123456", headers=authorised).status_code == 413
    with serving(root, CLICKLINE_TOKEN=SECRET) as (_, address):
        assert httpx.put(address + "/new", content=b"again", headers=authorised).status_code == 200
    with serving(root) as (_, address):
        assert httpx.put(address + "/new", content=b"never", headers=authorised).status_code == 403


def test_what_cannot_work_is_said(tmp_path: Path) -> None:
    result = run("fileserver", "--root", tmp_path / "nothing", "--listen", "127.0.0.1:0")
    assert (result.returncode, "no directory" in result.stderr) == (4, True)
    result = run("fileserver", "--root", tmp_path, "--listen", "nowhere")
    assert (result.returncode, "HOST:PORT" in result.stderr) == (3, True)
