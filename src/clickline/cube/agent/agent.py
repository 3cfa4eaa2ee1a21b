"""The agent beside a cube server: fetches what the server is to load, and tells it to load and to switch.

    download, reload, enable, check, clear, pop, rollback

One command at a time for each dictionary and shard; only `check` and `rollback` need not wait for one that is at work.
A success is what the server confirmed, never what was merely asked of it.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from clickline.cube.agent.download import (
    DamagedFileError,
    DownloadLimits,
    ExpectedHashes,
    download,
    same_file,
    web_client,
)
from clickline.cube.server.cube_process import CubeCommands
from clickline.cube.server.disk import DOWNLOADING, downloaded_version
from clickline.cube.shard_files import deployed_name, part_name, read_shard
from clickline.errors import ClicklineError, PeerError, VersionError
from clickline.files.atomic import sync_directory
from clickline.files.failpoints import reach
from clickline.files.json_state import read_state, write_state
from clickline.files.leftovers import abandoned, being_written, remove_leftover
from clickline.net.web_server import FAILED, OK

log = logging.getLogger("clickline.agent")
BUSY = "Another work with same key is doing."
INVALID = "Work is invalid"
DOWNLOADED = "download.json"
SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LONGEST_PATH = 4096
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ALONGSIDE = ("check", "rollback")
_DEADLINES = {"base": 3600.0, "delta": 900.0}


@dataclass(frozen=True)
class AgentOptions:
    """Where an agent is, and whom it serves."""

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


@dataclass(frozen=True)
class Work:
    """A command, checked."""

    command: str
    name: str
    shard: int
    version: int
    base: int
    deploy: Path
    asked: dict[str, Any]

    @property
    def directory(self) -> Path:
        return self.deploy / "data" / deployed_name(self.base, self.version)

    @property
    def file(self) -> Path:
        return self.directory / part_name(self.name, self.shard)


class Agent:
    """Does one command after the other, each to its end, whoever waits for it."""

    def __init__(self, options: AgentOptions) -> None:
        self.options = options
        self._doing: set[tuple[str, int]] = set()
        self._lock = threading.Lock()
        self._client = web_client()
        self._remove_leftovers()
        self._commands: dict[str, Callable[[Work], Any]] = {
            "download": self._download,
            "reload": self._reload,
            "enable": self._enable,
            "check": self._check,
            "clear": self._clear,
            "pop": self._pop,
            "rollback": self._rollback,
        }

    def run(self, asked: dict[str, Any]) -> tuple[str, str, Any]:
        """Code, message and data of the answer."""
        try:
            work = self._checked(asked)
        except ClicklineError as error:
            return FAILED, str(error), ""
        key = (work.name, work.shard)
        alone = work.command not in _ALONGSIDE
        with self._lock:
            if alone and key in self._doing:
                return FAILED, BUSY, ""
            if alone:
                self._doing.add(key)
        try:
            data = self._commands[work.command](work)
        except DamagedFileError as error:
            log.warning("%s of version %d: %s", work.command, work.version, error)
            return FAILED, str(error), {"damaged": True}  # whoever offers the file should look at it
        except ClicklineError as error:
            log.warning("%s of version %d: %s", work.command, work.version, error)
            return FAILED, str(error), ""
        except OSError as error:
            log.warning("%s of version %d: %s", work.command, work.version, error)
            return FAILED, f"{error.filename or work.directory}: {error.strerror}", ""
        finally:
            if alone:
                with self._lock:
                    self._doing.discard(key)
        log.info("%s of version %d: done", work.command, work.version)
        return OK, "query ok", "" if data is None else data

    def cube_status(self, name: str) -> dict[str, Any]:
        """What the server says of itself. Raises PeerError."""
        with self._server(name, {}, patience=0.1) as server:
            found: dict[str, Any] = server.call("status")
        return found

    def close(self) -> None:
        self._client.close()

    # --- the commands ---

    def _download(self, work: Work) -> None:
        """Into a directory with a dot, which gets its name when all is there and right."""
        source = str(work.asked.get("source", ""))
        if not _is_web_address(source):
            raise VersionError(f"source {source!r:.200} must be one http:// or https:// URL")
        expected = self._expected(source, work)
        if work.file.exists():
            if same_file(work.file, expected):
                return
            shutil.rmtree(work.directory)  # of another build, or damaged since
        self._remove_leftovers(work)
        mode = "base" if work.base == work.version else "delta"
        limits = DownloadLimits(rate=self.options.rate, largest=self.options.largest, seconds=_DEADLINES[mode])
        with being_written(work.directory.with_name(f"{DOWNLOADING}{work.directory.name}")) as aside:
            part = aside / f"{work.file.name}.part"
            facts = download(self._client, source, part, expected=expected, limits=limits)
            self._check_content(part, work)
            part.rename(aside / work.file.name)
            write_state(aside / DOWNLOADED, {**facts, "source": source, "md5": expected.md5})
            reach("agent.before-rename")
            if work.directory.exists():  # what is left of a removal that was broken off
                shutil.rmtree(work.directory)
            aside.rename(work.directory)
            sync_directory(work.directory.parent)
        reach("agent.downloaded")

    def _reload(self, work: Work) -> None:
        reach("agent.loading")
        with self._server(work.name, work.asked) as server:
            server.call("load", version=work.version, deadline=_DEADLINES["base"])

    def _enable(self, work: Work) -> None:
        reach("agent.enabling")
        with self._server(work.name, work.asked) as server:
            server.call("switch", version=work.version, **_switch_of(work.asked))
        reach("agent.enabled")

    def _rollback(self, work: Work) -> None:
        with self._server(work.name, work.asked) as server:
            server.call("rollback", version=work.version, **_switch_of(work.asked))

    def _check(self, work: Work) -> dict[str, Any]:
        """What is wrong is an error; what is right is told."""
        noted = read_state(work.directory / DOWNLOADED)
        if noted is None or not work.file.exists():
            raise VersionError(f"version {work.version} is not downloaded")
        if not _SHA256.fullmatch(str(noted.get("sha256"))):
            raise VersionError(f"{work.directory / DOWNLOADED}: damaged: it tells no SHA-256")
        if not same_file(work.file, ExpectedHashes(sha256=noted["sha256"])):
            raise VersionError(f"{work.file}: damaged: its SHA-256 is not {noted['sha256']}")
        found = self.cube_status(work.name)
        return {
            "downloaded": True,
            "loaded": work.version in found["loaded"],
            "enabled": work.version == found["version"],
            "bytes": work.file.stat().st_size,
            "sha256": noted["sha256"],
        }

    def _clear(self, work: Work) -> None:
        with self._server(work.name, work.asked) as server:
            server.call("remove", version=work.version)
        for path in (work.directory, work.directory.with_name(f"{DOWNLOADING}{work.directory.name}")):
            shutil.rmtree(path, ignore_errors=True)

    def _pop(self, work: Work) -> None:
        with self._server(work.name, work.asked) as server:
            server.call("drop", version=work.version)

    # --- what they need ---

    def _remove_leftovers(self, work: Work | None = None) -> None:
        """Downloads that nobody will take up: those of versions before this one; at the start, all but the newest."""
        deploy = self.options.deploy
        folders = [deploy / "data", *deploy.glob("*/data")] if work is None else [work.directory.parent]
        for folder in folders:
            there = {path: downloaded_version(path) for path in folder.glob(f"{DOWNLOADING}*")}
            newest = max(there.values(), default=0) if work is None else work.version
            for path in abandoned(path for path, version in there.items() if version < newest):
                reach("agent.cleaning")
                remove_leftover(path)

    def _checked(self, asked: dict[str, Any]) -> Work:
        command = asked.get("command")
        numbers = [_decimal(asked.get(key)) for key in ("version", "depend")]
        if not command or None in numbers:
            raise VersionError(INVALID)
        if not isinstance(command, str) or command not in self._commands:
            raise VersionError(f"{INVALID}: no command {command!r:.80}; known: {', '.join(self._commands)}")
        name, shard = asked.get("dict_name"), _decimal(asked.get("shard_seq", 0))
        if not isinstance(name, str) or not SAFE_NAME.fullmatch(name) or shard is None:
            raise VersionError(f"{INVALID}: dict_name {name!r:.80}, shard_seq {asked.get('shard_seq')!r:.80}")
        given = str(asked.get("deploy_path") or self.options.deploy)[: _LONGEST_PATH + 1]
        allowed = self.options.deploy.resolve()
        try:
            deploy = Path(given).resolve()
        except (ValueError, OSError, RuntimeError):
            raise VersionError(f"{INVALID}: deploy_path {given!r:.200} is no path") from None
        if len(given) > _LONGEST_PATH or not deploy.is_relative_to(allowed):
            raise VersionError(f"{INVALID}: deploy_path {given!r:.200} is outside of {self.options.deploy}")
        version, base = (number for number in numbers if number is not None)
        return Work(command, name, shard, version, base, deploy, asked)

    def _expected(self, source: str, work: Work) -> ExpectedHashes:
        """From the command, else from what lies beside the file: build.json, and the older .md5."""
        sha256 = str(work.asked.get("sha256", ""))
        if sha256:
            return ExpectedHashes(sha256=sha256.lower())
        told = self._beside(f"{source.rpartition('/')[0]}/build.json")
        try:
            sha256 = str(json.loads(told)["files"][source.rpartition("/")[2]]["sha256"]) if told else ""
        except (ValueError, KeyError, TypeError):
            raise VersionError(f"{source}: the build.json beside it does not tell its SHA-256") from None
        md5 = self._beside(f"{source}.md5").split()
        if sha256 and not _SHA256.fullmatch(sha256.lower()):
            raise VersionError(f"{source}: its SHA-256 must be 64 hexadecimal digits, not {sha256!r:.80}")
        return ExpectedHashes(sha256=sha256.lower(), md5=md5[0].decode("ascii", "replace").lower() if md5 else "")

    def _beside(self, url: str) -> bytes:
        try:
            with self._client.stream("GET", url) as answer:
                if answer.status_code == 404:
                    return b""
                if answer.status_code != 200:
                    raise PeerError(f"{url}: HTTP {answer.status_code}")
                content = b""
                for piece in answer.iter_bytes():
                    content += piece
                    if len(content) > 1 << 24:
                        raise PeerError(f"{url}: too large")
                return content
        except httpx.HTTPError as error:
            raise PeerError(f"{url}: {type(error).__name__}: {error}") from None

    def _check_content(self, part: Path, work: Work) -> None:
        facts = read_shard(part).facts
        wanted = {"name": work.name, "shard": work.shard, "version": work.version, "base": work.base}
        for key, value in wanted.items():
            if facts[key] != value:
                raise VersionError(f"{work.asked.get('source')}: {key} {facts[key]!r}, {value!r} was expected")

    def _server(self, name: str, asked: dict[str, Any], *, patience: float = 5.0) -> CubeCommands:
        port = _decimal(asked.get("port"))
        if port is not None and port > 65535:
            raise VersionError(f"{INVALID}: port {port}")
        address = self.options.cube or (f"tcp:127.0.0.1:{port}" if port else "")
        if not address:
            raise VersionError("which cube server? Start the agent with --cube, or name its port")
        return CubeCommands(address, name=name, token=self.options.token, patience=patience)


def _decimal(value: Any) -> int | None:
    """A number, or one as text; None if it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 19 else None


def _is_web_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        httpx.URL(text)
    except (ValueError, httpx.InvalidURL):
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and ";" not in text


def _switch_of(asked: dict[str, Any]) -> dict[str, Any]:
    """What a switch may say beyond the older fields: its number, and the other servers of the shard."""
    found: dict[str, Any] = {}
    if (number := _decimal(asked.get("number"))) is not None:
        found["number"] = number
    if isinstance(asked.get("peers"), list):
        found["peers"] = [str(peer) for peer in asked["peers"]]
    return found
