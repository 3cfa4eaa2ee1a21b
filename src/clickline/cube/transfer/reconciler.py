"""One thread for each instance, which brings it to where it should be, however long it was gone.

A reconciler is given a desired state, not a list of commands: what is to be in service, and what is to be prepared. It
asks the server for its actual state and does what is missing, so that a server which comes back after hours, or which
lost its disk, is brought up to date in the same way as any other: download and load first, then switch. Preparing runs
in a thread of its own, since a rollback must not wait for a download.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import httpx

from clickline.cube.agent.agent import BUSY
from clickline.cube.agent.download import DamagedFileError
from clickline.cube.transfer.instance import Instance
from clickline.errors import PeerError, VersionError
from clickline.net.web_server import OK

log = logging.getLogger("clickline.transfer")
_PROBE = 1.0
"""Seconds between looks at an instance that is where it should be."""
_AGAIN = 0.25
"""Seconds after which something that failed is tried again; twice as long each time that it fails again."""
_LONGEST_PAUSE = 30.0
_PATIENCE = httpx.Timeout(120.0, connect=2.0)


@dataclass(frozen=True)
class ChainFile:
    """One version of a chain, as it can be fetched."""

    version: int
    base: int
    sources: tuple[str, ...]
    """URLs, by shard."""
    hashes: tuple[str, ...]
    """SHA-256, by shard."""


@dataclass(frozen=True)
class DesiredState:
    """Where an instance should be."""

    serve: tuple[int, int] | None = None
    """Version and number of the switch."""
    prepare: int | None = None
    """A version that is to be downloaded."""
    load: bool = False
    """Whether it is to be loaded, too."""
    chains: tuple[tuple[ChainFile, ...], ...] = ()
    """What the versions named above are made of."""
    awaited: tuple[int, ...] = ()
    """Those of them whose builds are being looked through or made again: nothing is wrong with the instance."""

    def chain(self, version: int) -> tuple[ChainFile, ...]:
        return next((chain for chain in self.chains if chain and chain[-1].version == version), ())


class Reconciler(threading.Thread):
    """Drives one instance. `on_change` is called after every step."""

    def __init__(
        self,
        instance: Instance,
        *,
        name: str,
        token: bytes,
        peers: list[str],
        on_change: Callable[[], None],
        on_damaged: Callable[[ChainFile], None],
    ) -> None:
        """`on_damaged` is called when the instance got something else than the file that it was sent to fetch."""
        super().__init__(name=f"clickline-drive-{instance.name}", daemon=True)
        self.instance = instance
        self._dict, self._peers, self._on_change, self._on_damaged = name, peers, on_change, on_damaged
        self._failures, self._not_before = 0, 0.0
        self._desired = DesiredState()
        self._wake, self._ending = threading.Event(), threading.Event()
        headers = {"Authorization": f"Bearer {token.decode()}"}
        self._client = httpx.Client(
            base_url=instance.replica.agent, headers=headers, timeout=_PATIENCE, trust_env=False
        )
        self._beside = ThreadPoolExecutor(1, thread_name_prefix=f"clickline-prepare-{instance.name}")
        self._preparing: Future[None] | None = None

    def set_desired(self, desired: DesiredState) -> None:
        if desired != self._desired:
            self._desired = desired
            self.try_again()

    def try_again(self) -> None:
        """Something has changed: what failed before may succeed now."""
        self._failures, self._not_before = 0, 0.0
        self._wake.set()

    def close(self) -> None:
        self._ending.set()
        self._wake.set()
        self._beside.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        self.join(5.0)

    def run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            pause = _PROBE
            try:
                if not self._pursue(self._desired):
                    pause = _AGAIN
            except PeerError as error:
                self._report(str(error), dead=True, state="Dead")
                pause = min(self._longer_pause(), _PROBE)
            except VersionError as error:
                self._report(str(error), dead=False, state=_failed(self.instance.state))
                pause = self._longer_pause()
                self._not_before = time.monotonic() + pause
            except Exception as error:
                if not self._ending.is_set():
                    log.exception("instance %s", self.instance.name)
                    self._report(f"{type(error).__name__}: {error}", dead=False, state=_failed(self.instance.state))
                pause = _PROBE
            self._on_change()
            self._wake.wait(min(pause, _PROBE))

    def _longer_pause(self) -> float:
        self._failures += 1
        return float(min(_AGAIN * 2 ** (min(self._failures, 20) - 1), _LONGEST_PAUSE))

    def _pursue(self, desired: DesiredState) -> bool:
        """Do what can be done now. Whether everything is as it should be."""
        one = self.instance
        self._look()
        if self._preparing is not None and self._preparing.done():
            finished, self._preparing = self._preparing, None
            finished.result()
            self._failures = 0
        if time.monotonic() < self._not_before:
            return False
        settled = True
        if desired.serve is not None and not one.serves(*desired.serve):
            version, number = desired.serve
            if one.has_loaded(version):
                self._switch(version, number)
            else:
                self._begin_preparing(desired.chain(version), version, load=True)
                settled = False
        elif desired.serve is not None and desired.prepare is None and one.state != "Enable_Succ":
            one.enter("Enable_Succ", version=desired.serve[0])  # it was there before we were
        if desired.prepare is not None and settled:
            ready = one.has_loaded if desired.load else one.has_downloaded
            if ready(desired.prepare):
                self._note_ready(desired)
            else:
                self._begin_preparing(desired.chain(desired.prepare), desired.prepare, load=desired.load)
                settled = False
        if self._preparing is None and settled:
            one.well()
        return settled

    def _note_ready(self, desired: DesiredState) -> None:
        version = desired.prepare or 0
        if self.instance.version != version or self.instance.state not in ("Enabling", "Enable_Succ"):
            self.instance.enter(
                "Reload_Succ" if self.instance.has_loaded(version) else "Download_Succ", version=version
            )

    def _look(self) -> None:
        """Ask the server where it stands, through its agent."""
        self.instance.seen = self._ask("GET", "/agent/cube", params={"dict_name": self._dict}, dead_if_refused=True)
        if self.instance.dead:
            if self.instance.message:
                log.info("instance %s is back", self.instance.name)
            self.instance.well()
            self._failures, self._not_before = 0, 0.0

    def _begin_preparing(self, chain: tuple[ChainFile, ...], version: int, *, load: bool) -> None:
        if self._preparing is None and (chain or version not in self._desired.awaited):
            self._preparing = self._beside.submit(self._prepare, chain, version, load)
            self._preparing.add_done_callback(lambda _: self._wake.set())

    def _prepare(self, chain: tuple[ChainFile, ...], version: int, load: bool) -> None:
        one = self.instance
        if not chain:
            raise VersionError(f"version {version} is not among the builds any more")
        have = set(one.seen.get("complete", ()))
        last = max((index for index, file in enumerate(chain) if file.version in have), default=-1)
        for file in chain[last + 1 :]:
            one.source = file.sources[one.shard]
            one.enter("Downloading", version=version)
            try:
                self._tell("download", file.version, file.base, source=one.source, sha256=file.hashes[one.shard])
            except DamagedFileError:
                self._on_damaged(file)
                raise
        one.enter("Download_Succ", version=version)
        if load:
            one.enter("Reloading", version=version)
            self._tell("reload", version, chain[-1].base)
            one.enter("Reload_Succ", version=version)

    def _switch(self, version: int, number: int) -> None:
        one = self.instance
        # An agent that is busy downloading takes a rollback, and to the server they are the same.
        back = version < one.seen.get("version", 0) or self._preparing is not None
        one.enter("Enabling", version=version)
        base = next((file.base for file in self._desired.chain(version)), version)
        self._tell("rollback" if back else "enable", version, base, number=number, peers=self._peers)
        one.seen = {**one.seen, "version": version, "number": number}
        one.enter("Enable_Succ", version=version)
        one.well()
        self._failures = 0

    def _tell(self, command: str, version: int, base: int, **more: Any) -> None:
        """The older command, as it was."""
        one = self.instance
        body = {
            "command": command,
            "dict_name": self._dict,
            "deploy_path": one.replica.deploy_path,
            "version": str(version),
            "depend": str(base),
            "id": str(version),
            "key": str(base),
            "mode": "base" if version == base else "delta",
            "shard_seq": one.shard,
            "source": "",
            "port": "",
            **more,
        }
        while True:
            try:
                self._ask("POST", "/agent/cmd", json=body)
                return
            except _StillAtIt:
                if self._ending.wait(_AGAIN):
                    raise PeerError("we are stopping") from None

    def _ask(self, method: str, path: str, *, dead_if_refused: bool = False, **options: Any) -> dict[str, Any]:
        where = f"{self.instance.replica.agent}{path}"
        try:
            answer = self._client.request(method, path, **options)
            found = answer.json()
        except httpx.ReadTimeout:
            if method == "POST":
                raise _StillAtIt from None
            raise PeerError(f"{where}: no answer") from None
        except httpx.HTTPError as error:
            raise PeerError(f"{where}: {type(error).__name__}: {error}") from None
        except (ValueError, RuntimeError) as error:
            raise PeerError(f"{where}: HTTP answer cannot be read: {error}") from None
        if not isinstance(found, dict) or found.get("success") != OK:
            message = str(found.get("message")) if isinstance(found, dict) else "no envelope"
            if message == BUSY:
                raise _StillAtIt
            data = found.get("data") if isinstance(found, dict) else None
            if isinstance(data, dict) and data.get("damaged"):
                raise DamagedFileError(message)
            raise (PeerError if dead_if_refused else VersionError)(message)
        data = found.get("data")
        return data if isinstance(data, dict) else {}

    def _report(self, message: str, *, dead: bool, state: str) -> None:
        if self.instance.trouble(message, dead=dead, state=state) and not self._ending.is_set():
            log.warning("instance %s: %s", self.instance.name, message)


class _StillAtIt(Exception):
    """The agent is at a command that was given before."""


def _failed(state: str) -> str:
    return {
        "Downloading": "Download_Failed",
        "Reloading": "Reload_Failed",
        "Download_Succ": "Reload_Failed",
        "Enabling": "Enable_Failed",
        "Dead": "Init",
    }.get(state, state)
