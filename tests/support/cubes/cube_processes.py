"""A cube as processes that a test kills and starts again by hand, and readers that never stop asking."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import yaml

from clickline.cube.cube_client import Cube
from support.cubes.cube_readers import BatchReader, Known
from support.eventually import eventually
from support.versions.version_stores import VersionStore, keys_from

TOKEN = "a token of these processes"  # noqa: S105
NAME = "test_dict"


class CubeProcesses:
    """Servers and agents by shard and copy, and transfer. Everything is killed in the end."""

    def __init__(self, directory: Path, store: VersionStore, *, shards: int, copies: int, wait: float = 1.0) -> None:
        self.directory, self.store, self.shards, self.copies, self.wait = directory, store, shards, copies, wait
        directory.mkdir(parents=True, exist_ok=True)
        self._sockets = tempfile.TemporaryDirectory(prefix="clk-")
        self._http = httpx.Client(trust_env=False, timeout=30)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.names = [f"{shard}_{copy}" for shard in range(shards) for copy in range(copies)]
        self.servers = [[self._socket(f"{shard}_{copy}") for copy in range(copies)] for shard in range(shards)]

    def start_all(self) -> None:
        for name in self.names:
            self.start(f"cube.{name}", ready=False)
            self.start(f"agent.{name}", ready=False)
        for name in self.names:
            self.await_ready(f"cube.{name}")
            self.await_ready(f"agent.{name}")
        self.start("transfer")

    def start(self, who: str, *, fail_at: str = "", ready: bool = True) -> None:
        role, _, name = who.partition(".")
        arguments = {"cube": self._cube, "agent": self._agent, "transfer": self._transfer}[role](name)
        environment = {**os.environ, "CLICKLINE_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
        environment |= {"CLICKLINE_FAIL_AT": fail_at} if fail_at else {}
        self._ready(who).with_suffix(".pid").unlink(missing_ok=True)
        with (self.directory / f"{who}.log").open("ab") as log:
            self.running[who] = subprocess.Popen(
                [sys.executable, "-m", "clickline", role, *arguments, "--ready-file", str(self._ready(who))],
                env=environment,
                stdout=log,
                stderr=log,
            )
        if ready:
            self.await_ready(who)
            assert fail_at or not self.ended(who), f"{who} did not start: {self._last_words(who)}"

    def await_ready(self, who: str) -> None:
        pid = self.running[who].pid
        eventually(lambda: self.told(who).get("pid") == pid or self.ended(who), what=f"{who} ready")

    def ended(self, who: str) -> bool:
        return self.running[who].poll() is not None

    def kill(self, who: str) -> None:
        self.running[who].send_signal(signal.SIGKILL)
        self.running[who].wait()

    def restart(self, who: str, *, fail_at: str = "") -> None:
        self.kill(who)
        self.start(who, fail_at=fail_at)

    def close(self) -> None:
        for process in self.running.values():
            process.kill()
        for process in self.running.values():
            process.wait()
        self._http.close()
        self._sockets.cleanup()

    def told(self, who: str) -> dict[str, Any]:
        with suppress(OSError, ValueError):
            return json.loads(self._ready(who).read_text())
        return {}

    @property
    def url(self) -> str:
        return self.told("transfer")["http"]

    def get(self, path: str) -> Any:
        return self._http.get(f"{self.url}{path}").json()["data"]

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        return self._http.post(f"{self.url}{path}", json=body, headers=headers).json()

    def serving(self) -> int:
        """The version that is finished, unless another is on its way."""
        with suppress(httpx.HTTPError, KeyError):
            info = self.get("/dict/info")
            if info["current_version_info"] and not info["wait_version_info"]:
                return int(info["current_version_info"][0]["version"])
        return 0

    def await_version(self, version: int) -> None:
        eventually(lambda: self.serving() == version, what=f"version {version} in service")

    def all_serve(self, version: int) -> bool:
        """Whether every server serves it, those that were left behind as well."""
        with suppress(httpx.HTTPError):
            wanted = ("Enable_Succ", str(version))
            told = self.get("/instance/status")
            return self.serving() == version and all((one["status"], one["version"]) == wanted for one in told)
        return False

    def await_all(self, version: int) -> None:
        eventually(lambda: self.all_serve(version), what=f"version {version} on all servers")

    def connect(self, **options: Any) -> Cube:
        return Cube.connect(self.servers, name=NAME, token=TOKEN.encode(), **options)

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in sorted(self.directory.glob("*.log")))

    def _last_words(self, who: str) -> str:
        return (self.directory / f"{who}.log").read_text()[-1000:]

    def _cube(self, name: str) -> list[str]:
        shard = name.partition("_")[0]
        where = ["--listen", self._socket(name), "--http", "127.0.0.1:0"]
        return [
            "serve",
            str(self._deploy(name)),
            "--name",
            NAME,
            "--shard",
            shard,
            "--shards",
            str(self.shards),
            *where,
        ]

    def _agent(self, name: str) -> list[str]:
        known = self.told(f"agent.{name}").get("http", ":0")  # one that comes back must be found where it was
        listen = f"127.0.0.1:{known.rpartition(':')[2]}"
        return [str(self._deploy(name)), "--cube", self._socket(name), "--listen", listen]

    def _transfer(self, _name: str) -> list[str]:
        file = self.directory / "transfer.yaml"
        replicas = {
            name: {
                "agent": self.told(f"agent.{name}")["http"],
                "cube": self._socket(name),
                "deploy_path": str(self._deploy(name)),
            }
            for name in self.names
        }
        keys = {
            "dict_name": NAME,
            "donefile_address": str(self.store.path),
            "output_address": str(self.directory / "builds"),
            "tmp_address": str(self.directory / "state"),
            "wait": self.wait,
            "shards": [[replicas[f"{s}_{c}"] for c in range(self.copies)] for s in range(self.shards)],
        }
        file.write_text(yaml.safe_dump(keys))
        return [str(file), "--listen", "127.0.0.1:0"]

    def _socket(self, name: str) -> str:
        return f"unix:{self._sockets.name}/{name}"

    def _deploy(self, name: str) -> Path:
        return self.directory / f"deploy.{name}"

    def _ready(self, who: str) -> Path:
        return self.directory / f"{who}.json"


class Reader(BatchReader):
    """Reads batches of the store's first keys all the time."""

    def __init__(self, cube: Cube, store: VersionStore, *, seed: int = 0) -> None:
        super().__init__(
            lambda keys: cube.get("embedding", keys),
            Known.of_store(store),
            pool=keys_from(1, 600),
            always=keys_from(0, 0),
            seed=seed,
            pause=0.001,  # or it takes a core from the processes that it waits for
        )


@contextmanager
def two_by_two(directory: Path, **settings: Any) -> Iterator[CubeProcesses]:
    """Two shards of two servers each, all of which serve version 1."""
    store = VersionStore(directory / "store")
    found = CubeProcesses(directory / "processes", store, shards=2, copies=2, **settings)
    try:
        store.base(keys_from(1, 300))
        found.start_all()
        found.await_all(1)
        yield found
    finally:
        found.close()
