"""A predictor's worker as a process of its own, with a real model: its memory can be read, and it can be hung.

    python predictor_worker.py SPECIFICATION

It listens on loopback, also when it is told to be as careful as a server that others can reach.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from clickline.files.json_state import write_state
from clickline.launch.predictor_processes import PROTOCOLS, make_predictor
from clickline.processes.logs import set_up
from clickline.serve.http.auth import TokenAuth
from clickline.serve.http.connection_table import ConnectionTimeouts
from clickline.serve.metrics.counters import Counters
from clickline.serve.serve_settings import ServeConfig
from clickline.serve.worker import Worker
from support.eventually import eventually

TOKEN = "a token of these workers"  # noqa: S105
MODEL = "ctr"


class PredictorWorker:
    """Runs until it is closed. With `public`, clients have to show the token; `config` are keys of serve.yaml."""

    def __init__(
        self, directory: Path, store: Path, *, public: bool, timing: Mapping[str, float] | None = None, **config: Any
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.log, ready = directory / "worker.log", directory / "ready.json"
        settings = {"models": {MODEL: {"store": str(store), **config.pop("model", {})}}, **config}
        specification = {"config": settings, "public": public, "timing": dict(timing or {}), "ready": str(ready)}
        path = directory / "specification.json"
        path.write_text(json.dumps(specification), encoding="utf-8")
        environment = {**os.environ, "CLICKLINE_TOKEN": TOKEN, "PYTHONPATH": str(Path(__file__).parents[2])}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, __file__, str(path)], env=environment, stdout=log, stderr=log
            )
        eventually(lambda: ready.exists() or self.process.poll() is not None, what="a worker that serves")
        assert ready.exists(), self.log.read_text()
        self.port: int = json.loads(ready.read_text())["port"]
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers = {"Authorization": f"Bearer {TOKEN}"} if public else {}
        self.client = httpx.Client(base_url=self.url, headers=self.headers, trust_env=False, timeout=30)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=30)

    def predict(self, instances: list[dict[str, Any]]) -> list[float]:
        """By a connection that was there before whoever harms it. Asserts that it is still the same process."""
        answer = self.client.post("/predict", json={"instances": instances})
        assert answer.status_code == 200, answer.text
        assert self.process.poll() is None
        found: list[float] = answer.json()["predictions"]
        return found

    def status(self) -> dict[str, Any]:
        """Of the worker itself, by a connection of its own."""
        answer = httpx.get(f"{self.url}/status", headers=self.headers, trust_env=False, timeout=30)
        found: dict[str, Any] = answer.json()["worker"]
        assert found["pid"] == self.process.pid
        return found

    def peak_memory(self) -> int:
        """Bytes that it has ever had at once."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@contextmanager
def predictor_in_thread(directory: Path, store: Path | str, **config: Any) -> Iterator[str]:
    """The same in a thread of this process, where starting one would take longer than the test; its URL."""
    settings = {"models": {MODEL: {"store": str(store), **config.pop("model", {})}}, "limits": {"timeout": 30.0}}
    checked = ServeConfig.model_validate(settings | config)
    counts, ready = Counters(directory / "0.counts"), threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    worker = Worker(
        checked,
        make_predictor(checked, TOKEN.encode(), counts),
        protocols=PROTOCOLS,
        listener=listener,
        counts=counts,
        directory=directory,
        auth=TokenAuth(host="127.0.0.1", token=None, certificates=False),
        on_ready=ready.set,
    )
    thread = threading.Thread(target=worker.run, kwargs={"signals": False}, daemon=True)
    thread.start()
    try:
        eventually(lambda: ready.is_set() or not thread.is_alive(), what="a version that is served")
        assert thread.is_alive()
        yield f"http://127.0.0.1:{port}"
    finally:
        worker.stop()
        worker.stop()
        thread.join()


def main(path: str) -> None:
    specification = json.loads(Path(path).read_bytes())
    set_up("serve", 0)
    directory = Path(path).parent
    config = ServeConfig.model_validate(specification["config"])
    token = TOKEN.encode()
    host = "0.0.0.0" if specification["public"] else "127.0.0.1"  # noqa: S104
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    counts = Counters(directory / "0.counts")
    Worker(
        config,
        make_predictor(config, token, counts),
        protocols=PROTOCOLS,
        listener=listener,
        counts=counts,
        directory=directory,
        auth=TokenAuth(host=host, token=token, certificates=False),
        timeouts=ConnectionTimeouts(**specification["timing"]),
        on_ready=lambda: write_state(Path(specification["ready"]), {"port": listener.getsockname()[1]}),
    ).run()


if __name__ == "__main__":
    main(sys.argv[1])
