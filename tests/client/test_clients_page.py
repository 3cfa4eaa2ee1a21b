"""The guide to clients: its Python runs as it stands, but for the port."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.doubles.predictor_double import PredictorDouble
from support.processes import ENVIRONMENT

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)


def run(code: str, double: PredictorDouble, directory: Path) -> str:
    code = code.replace("8010", str(double.server_address[1]))
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client(double: PredictorDouble, tmp_path: Path) -> None:
    assert run(BLOCKS[0], double, tmp_path) == "[0.03, 0.0] by version 7\n"


def test_the_older_client(double: PredictorDouble, tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    (tmp_path / "client" / "slot.conf").write_text("C1\nC2\n", encoding="utf-8")
    assert run(BLOCKS[1], double, tmp_path) == "[{'prob0': 0.75, 'prob1': 0.25}]\n"
    assert len(BLOCKS) == 2


def test_every_reason_and_every_call_is_told() -> None:
    from clickline import AsyncClient, Client
    from clickline.net.request_errors import REASONS

    told = re.sub(r"\s+", " ", PAGE)
    of_paths = {"unknown_path", "wrong_method"}  # a client asks for none
    assert [reason for reason in REASONS if reason not in told] == sorted(of_paths)
    for client in (Client, AsyncClient):
        calls = {name for name in dir(client) if not name.startswith("_")} - {"post"}
        assert {name for name in calls if f"`{name}(" not in told} == set()
