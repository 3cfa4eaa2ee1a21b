"""The agent beside a cube server: fetches what the server is to load, and makes it load and switch.

    download, load, switch, roll_back, check, drop, remove

One command at a time for each dictionary and shard; only `check` and `roll_back` need not wait for one that is running.
A success is what the server confirmed, never what was merely asked of it.
"""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from clickline.cube.agent.deployed_file import DeployedFile, InvalidCommandError, check_name
from clickline.cube.agent.download import (
    DamagedFileError,
    DownloadLimits,
    ExpectedHashes,
    download,
    same_file,
    web_client,
)
from clickline.cube.agent.expected_hashes import SHA256, expected_hashes
from clickline.cube.agent_messages import (
    AgentCommand,
    AgentReply,
    AgentReplyCode,
    AnyAgentCommand,
    CheckCommand,
    CubeServerStatus,
    DownloadCommand,
    DropCommand,
    FileCheck,
    LoadCommand,
    RemoveCommand,
    RollBackCommand,
    SwitchCommand,
)
from clickline.cube.server.cube_commands import CubeCommands
from clickline.cube.server.disk import DOWNLOADING, downloaded_version
from clickline.cube.shard_files import read_shard
from clickline.errors import ClicklineError, VersionError
from clickline.files.atomic import sync_directory
from clickline.files.failpoints import reach
from clickline.files.json_state import read_state, write_state
from clickline.files.leftovers import abandoned, being_written, remove_leftover

log = logging.getLogger("clickline.agent")
DOWNLOADED = "download.json"
_CONCURRENT = (CheckCommand, RollBackCommand)
"""Commands that need not wait for one that is running."""
_BASE_SECONDS, _DELTA_SECONDS = 3600.0, 900.0
"""How long a download may take."""


@dataclass(frozen=True)
class AgentOptions:
    """Where an agent listens and works, and which server it drives."""

    deploy: Path
    """No command reaches out of it."""
    token: bytes
    cube: str = ""
    """The server's address; if empty, the port that a command names, on this machine."""
    host: str = "127.0.0.1"
    port: int = 0
    open_to_all: bool = False
    rate: float = 0.0
    largest: int = 1 << 40
    ready: Path | None = None


class Agent:
    """Executes commands, each to its end, whether or not the caller still waits for it."""

    def __init__(self, options: AgentOptions) -> None:
        self.options = options
        self._running: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._client = web_client()
        self._remove_leftovers()
        self._handlers: dict[type[AgentCommand], Callable[[Any, DeployedFile], FileCheck | None]] = {
            DownloadCommand: self._download,
            LoadCommand: self._load,
            SwitchCommand: self._switch,
            RollBackCommand: self._roll_back,
            CheckCommand: self._check,
            DropCommand: self._drop,
            RemoveCommand: self._remove,
        }

    def run(self, command: AnyAgentCommand) -> AgentReply:
        """Execute a command. Never raises: what went wrong is in the reply."""
        try:
            file = DeployedFile.of(command, deploy=self.options.deploy)
        except InvalidCommandError as error:
            return AgentReply(code=AgentReplyCode.INVALID, message=str(error))
        # Downloads and loads of one shard would work on the same directory, so they exclude each other.
        key = (command.name, command.shard)
        exclusive = not isinstance(command, _CONCURRENT)
        # Only the entry is made under the lock: a download takes up to an hour, and other shards and `check` go on.
        with self._lock:
            if exclusive and key in self._running:
                return AgentReply(
                    code=AgentReplyCode.BUSY, message="another command for this dictionary and shard is running"
                )
            if exclusive:
                self._running.add(key)
        try:
            checked = self._handlers[type(command)](command, file)
        except InvalidCommandError as error:
            return _failure(command, AgentReplyCode.INVALID, str(error))
        except DamagedFileError as error:
            return _failure(command, AgentReplyCode.DAMAGED, str(error))
        except ClicklineError as error:
            return _failure(command, AgentReplyCode.FAILED, str(error))
        except OSError as error:
            return _failure(command, AgentReplyCode.FAILED, f"{error.filename or file.directory}: {error.strerror}")
        finally:
            if exclusive:
                with self._lock:
                    self._running.discard(key)
        log.info("%s of version %d: done", command.verb, command.version)
        return AgentReply(code=AgentReplyCode.DONE, file=checked)

    def server_status(self, name: str) -> CubeServerStatus:
        """What the server reports of itself. Raises PeerError if it cannot be reached."""
        check_name(name)
        # Transfer polls this every second: a server that is down is reported at once, not waited for.
        with self._server(name, patience=0.1) as server:
            return server.status()

    def close(self) -> None:
        self._client.close()

    # --- the commands ---

    def _download(self, command: DownloadCommand, file: DeployedFile) -> None:
        """Fetch into a staging directory, which gets its name when everything is there and right."""
        if not _is_web_address(command.source):
            raise VersionError(f"source {command.source!r:.200} must be one http:// or https:// URL")
        expected = expected_hashes(self._client, command.source, sha256=command.sha256)
        # Transfer repeats a command whose reply it did not get, so what is there already counts as downloaded.
        if file.path.exists():
            if same_file(file.path, expected):
                return
            shutil.rmtree(file.directory)  # of another build, or damaged since
        self._remove_earlier_downloads(command, file)
        limits = DownloadLimits(
            rate=self.options.rate,
            largest=self.options.largest,
            seconds=_BASE_SECONDS if command.base == command.version else _DELTA_SECONDS,
        )
        # The lock on the staging directory keeps the cube server, another process, from removing it as a leftover.
        with being_written(file.staging) as staging:
            part = staging / f"{file.path.name}.part"
            hashes = download(self._client, command.source, part, expected=expected, limits=limits)
            # The hash says that it is the file that was offered; its header, that it is the one for this shard.
            self._check_content(part, command)
            part.rename(staging / file.path.name)
            # Inside the staging directory: the file and the hashes that `check` needs appear by the same rename.
            write_state(staging / DOWNLOADED, {**asdict(hashes), "source": command.source, "md5": expected.md5})
            reach("agent.before-rename")
            # A rename does not replace a directory that is not empty.
            if file.directory.exists():  # the rest of a removal that was interrupted
                shutil.rmtree(file.directory)
            staging.rename(file.directory)
            sync_directory(file.directory.parent)
        reach("agent.downloaded")

    def _load(self, command: LoadCommand, _: DeployedFile) -> None:
        reach("agent.loading")
        with self._server(command.name, command.server_port) as server:
            server.load(command.version, deadline=_BASE_SECONDS)

    def _switch(self, command: SwitchCommand, _: DeployedFile) -> None:
        reach("agent.enabling")
        with self._server(command.name, command.server_port) as server:
            server.switch(command.version, number=command.number, peers=command.peers)
        reach("agent.enabled")

    def _roll_back(self, command: RollBackCommand, _: DeployedFile) -> None:
        with self._server(command.name, command.server_port) as server:
            server.roll_back(command.version, number=command.number, peers=command.peers)

    def _check(self, command: CheckCommand, file: DeployedFile) -> FileCheck:
        noted = read_state(file.directory / DOWNLOADED)
        if noted is None or not file.path.exists():
            raise VersionError(f"version {command.version} is not downloaded")
        sha256 = str(noted.get("sha256"))
        if not SHA256.fullmatch(sha256):
            raise VersionError(f"{file.directory / DOWNLOADED}: damaged: it does not hold a SHA-256")
        if not same_file(file.path, ExpectedHashes(sha256=sha256)):
            raise VersionError(f"{file.path}: damaged: its SHA-256 is not {sha256}")
        server = self.server_status(command.name)
        return FileCheck(
            loaded=command.version in server.loaded,
            in_service=command.version == server.version,
            bytes=file.path.stat().st_size,
            sha256=sha256,
        )

    def _drop(self, command: DropCommand, _: DeployedFile) -> None:
        with self._server(command.name, command.server_port) as server:
            server.drop(command.version)

    def _remove(self, command: RemoveCommand, file: DeployedFile) -> None:
        # The server first: it refuses if a loaded version is built on these files, and then they stay.
        with self._server(command.name, command.server_port) as server:
            server.remove(command.version)
        for path in (file.directory, file.staging):
            shutil.rmtree(path, ignore_errors=True)

    # --- what they need ---

    def _remove_leftovers(self) -> None:
        """At the start: of the downloads that were interrupted, only the newest may still be resumed."""
        for folder in (self.options.deploy / "data", *self.options.deploy.glob("*/data")):
            versions = [downloaded_version(path) for path in folder.glob(f"{DOWNLOADING}*")]
            _remove_downloads(folder, before=max(versions, default=0))

    def _remove_earlier_downloads(self, command: DownloadCommand, file: DeployedFile) -> None:
        _remove_downloads(file.directory.parent, before=command.version)

    def _check_content(self, part: Path, command: DownloadCommand) -> None:
        header = read_shard(part).header
        wanted = {"name": command.name, "shard": command.shard, "version": command.version, "base": command.base}
        for key, value in wanted.items():
            actual = getattr(header, key)
            if actual != value:
                raise VersionError(f"{command.source}: {key} {actual!r}, {value!r} was expected")

    def _server(self, name: str, port: int = 0, *, patience: float = 5.0) -> CubeCommands:
        address = self.options.cube or (f"tcp:127.0.0.1:{port}" if port else "")
        if not address:
            raise VersionError("which cube server? Start the agent with --cube, or name its port")
        return CubeCommands(address, name=name, token=self.options.token, patience=patience)


def _failure(command: AgentCommand, code: AgentReplyCode, message: str) -> AgentReply:
    log.warning("%s of version %d: %s", command.verb, command.version, message)
    return AgentReply(code=code, message=message)


def _remove_downloads(folder: Path, *, before: int) -> None:
    """Interrupted downloads of earlier versions, unless another process is writing them."""
    for path in abandoned(path for path in folder.glob(f"{DOWNLOADING}*") if downloaded_version(path) < before):
        reach("agent.cleaning")
        remove_leftover(path)


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and ";" not in text
