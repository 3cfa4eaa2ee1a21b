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

import msgspec

from clickline.cube.agent_messages import AnyAgentCommand, DownloadCommand, LoadCommand, RollBackCommand, SwitchCommand
from clickline.cube.transfer.agent_client import AgentBusyError, AgentClient, DamagedBuildError
from clickline.cube.transfer.desired_state import ChainFile, DesiredState
from clickline.cube.transfer.instance import Instance, InstanceState
from clickline.errors import PeerError, VersionError

log = logging.getLogger("clickline.transfer")
_PROBE_EVERY = 1.0
"""Seconds between polls of an instance that is in its desired state."""
_FIRST_PAUSE = 0.25
"""Seconds until something that failed is tried again; twice as long each time that it fails again."""
_LONGEST_PAUSE = 30.0


class Reconciler(threading.Thread):
    """Brings one instance to its desired state. `on_change` is called after every step."""

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
        """`on_damaged` is called when the agent got something else than the file that it was sent to fetch."""
        super().__init__(name=f"clickline-reconcile-{instance.name}", daemon=True)
        self.instance = instance
        self.peers = peers
        """Addresses of the other servers of the shard, which go with the next switch."""
        self._dict, self._on_change, self._on_damaged = name, on_change, on_damaged
        self._failures, self._not_before = 0, 0.0
        self._desired = DesiredState()
        self._wake, self._ending = threading.Event(), threading.Event()
        self._agent = AgentClient(instance.replica.agent, name=name, token=token)
        self._preparer = ThreadPoolExecutor(1, thread_name_prefix=f"clickline-prepare-{instance.name}")
        self._preparing: Future[None] | None = None

    def set_desired(self, desired: DesiredState) -> None:
        if desired != self._desired:
            # Assigned before `_wake` is set, and read by the thread after it has cleared `_wake`: no change is missed.
            self._desired = desired
            self.try_again()

    def try_again(self) -> None:
        """Something has changed: what failed before may succeed now."""
        self._failures, self._not_before = 0, 0.0
        self._wake.set()

    def close(self) -> None:
        self._ending.set()
        self._wake.set()
        self._preparer.shutdown(wait=False, cancel_futures=True)
        self._agent.close()
        self.join(5.0)

    def run(self) -> None:
        while not self._ending.is_set():
            self._wake.clear()
            pause = _PROBE_EVERY
            try:
                if not self._reconcile(self._desired):
                    pause = _FIRST_PAUSE
            except PeerError as error:
                # Not reachable: polled again soon, whatever failed before, since a restart takes seconds.
                self._report(str(error), dead=True, state=InstanceState.DEAD)
                pause = min(self._longer_pause(), _PROBE_EVERY)
            except VersionError as error:
                # Refused: the same command would be refused again, so the pauses grow until something changes.
                self._report(str(error), dead=False, state=self.instance.state.failed())
                pause = self._longer_pause()
                self._not_before = time.monotonic() + pause
            except Exception as error:
                if not self._ending.is_set():
                    log.exception("instance %s", self.instance.name)
                    self._report(f"{type(error).__name__}: {error}", dead=False, state=self.instance.state.failed())
                pause = _PROBE_EVERY
            self._on_change()
            # The status is polled every second even during a longer pause; `_not_before` keeps the commands back.
            self._wake.wait(min(pause, _PROBE_EVERY))

    def _longer_pause(self) -> float:
        self._failures += 1
        # The exponent is bounded: after a thousand failures the product would be too large for a float.
        return float(min(_FIRST_PAUSE * 2 ** (min(self._failures, 20) - 1), _LONGEST_PAUSE))

    def _reconcile(self, desired: DesiredState) -> bool:
        """Do what can be done now. Returns whether the instance is in its desired state."""
        instance = self.instance
        self._poll()
        if self._preparing is not None and self._preparing.done():
            finished, self._preparing = self._preparing, None
            finished.result()  # raises what went wrong in its thread
            self._failures = 0
        # Set where a command was refused, and reset by every change of the desired state: a rollback is not delayed.
        if time.monotonic() < self._not_before:
            return False
        settled = True
        # First what should be in service: a rollback, or a server that came back, goes before any preparation.
        if desired.serve is not None and not instance.serves(*desired.serve):
            version, number = desired.serve
            if instance.has_loaded(version):
                self._switch(version, number)
            else:
                self._begin_preparing(desired.chain(version), version, load=True)
                settled = False
        elif desired.serve is not None and desired.prepare is None and instance.state is not InstanceState.IN_SERVICE:
            instance.enter(InstanceState.IN_SERVICE, version=desired.serve[0])  # it served it before transfer started
        if desired.prepare is not None and settled:
            is_ready = instance.has_loaded if desired.load else instance.has_downloaded
            if is_ready(desired.prepare):
                self._note_ready(desired.prepare)
            else:
                self._begin_preparing(desired.chain(desired.prepare), desired.prepare, load=desired.load)
                settled = False
        if self._preparing is None and settled:
            instance.recover()
        return settled

    def _note_ready(self, version: int) -> None:
        instance = self.instance
        if instance.version != version or instance.state not in (InstanceState.SWITCHING, InstanceState.IN_SERVICE):
            state = InstanceState.LOADED if instance.has_loaded(version) else InstanceState.DOWNLOADED
            instance.enter(state, version=version)

    def _poll(self) -> None:
        """Get the server's actual state, through its agent."""
        self.instance.server = self._agent.server_status()
        if self.instance.dead:
            if self.instance.message:
                log.info("instance %s is back", self.instance.name)
            self.instance.recover()
            self._failures, self._not_before = 0, 0.0

    def _begin_preparing(self, chain: tuple[ChainFile, ...], version: int, *, load: bool) -> None:
        # One preparation at a time. A build that is being verified or made is waited for; that is no fault of the
        # instance, and must not start its patience.
        if self._preparing is None and (chain or version not in self._desired.awaited):
            self._preparing = self._preparer.submit(self._prepare, chain, version, load)
            self._preparing.add_done_callback(lambda _: self._wake.set())

    def _prepare(self, chain: tuple[ChainFile, ...], version: int, load: bool) -> None:
        """Download what is missing of a chain, and load its last version if `load`. Runs in a thread of its own."""
        instance, server = self.instance, self.instance.server
        if not chain:
            raise VersionError(f"version {version} is not among the builds any more")
        # A version on disk is complete only with all that it stands on, so only what comes after it is fetched.
        complete = server.complete if server is not None else ()
        last = max((index for index, file in enumerate(chain) if file.version in complete), default=-1)
        for file in chain[last + 1 :]:
            instance.source = file.sources[instance.shard]
            instance.enter(InstanceState.DOWNLOADING, version=version)
            try:
                self._run(
                    DownloadCommand(
                        name=self._dict,
                        shard=instance.shard,
                        version=file.version,
                        base=file.base,
                        source=instance.source,
                        sha256=file.hashes[instance.shard],
                    )
                )
            except DamagedBuildError:
                # The build itself may be damaged: transfer stops offering it to all instances until it was verified.
                self._on_damaged(file)
                raise
        instance.enter(InstanceState.DOWNLOADED, version=version)
        if load:
            instance.enter(InstanceState.LOADING, version=version)
            self._run(LoadCommand(name=self._dict, shard=instance.shard, version=version, base=chain[-1].base))
            instance.enter(InstanceState.LOADED, version=version)

    def _switch(self, version: int, number: int) -> None:
        instance = self.instance
        server = instance.server
        # An agent that is busy downloading accepts a roll-back, and to the server the two are the same.
        goes_back = (server is not None and version < server.version) or self._preparing is not None
        instance.enter(InstanceState.SWITCHING, version=version)
        # The base only names the file, which a switch does not touch: it may be missing when builds were removed.
        base = next((file.base for file in self._desired.chain(version)), version)
        kind = RollBackCommand if goes_back else SwitchCommand
        self._run(
            kind(
                name=self._dict,
                shard=instance.shard,
                version=version,
                base=base,
                number=number,
                peers=tuple(self.peers),
            )
        )
        if server is not None:
            # The next poll is up to a second away, and a rollback should be seen as done at once.
            instance.server = msgspec.structs.replace(server, version=version, number=number)
        instance.enter(InstanceState.IN_SERVICE, version=version)
        instance.recover()
        self._failures = 0

    def _run(self, command: AnyAgentCommand) -> None:
        """Send a command until the agent has executed it, however long it is busy with one from before."""
        command = msgspec.structs.replace(command, deploy_path=self.instance.replica.deploy_path)
        while True:
            try:
                self._agent.run(command)
                return
            except AgentBusyError:
                if self._ending.wait(_FIRST_PAUSE):
                    raise PeerError("transfer is stopping") from None

    def _report(self, message: str, *, dead: bool, state: InstanceState) -> None:
        if self.instance.fail(message, dead=dead, state=state) and not self._ending.is_set():
            log.warning("instance %s: %s", self.instance.name, message)
