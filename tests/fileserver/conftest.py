"""A file server over real sockets, and a client for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clickline.fileserver.file_server import FileServer

TOKEN = "a token for tests only"  # noqa: S105


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What is served, and something beside it that must never be."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("secret")
    served = tmp_path / "served"
    (served / "data" / "20261116").mkdir(parents=True)
    (served / "slot.conf").write_text("slots: 26\n")
    (served / "data" / "20261116" / "feature").write_bytes(bytes(range(256)) * 16)
    return served


@pytest.fixture
def server(root: Path) -> Iterator[FileServer]:
    with FileServer(root, token=TOKEN.encode(), upload_limit=4 << 20, upload_idle=0.5, most_uploads=2) as running:
        yield running


@pytest.fixture
def client(server: FileServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, timeout=20) as made:
        yield made


@pytest.fixture
def authorised() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}
