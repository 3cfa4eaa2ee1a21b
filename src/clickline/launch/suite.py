"""A suite: the processes that deliver and serve versions on this machine, started and stopped together.

    STATE/versions ── file server ── transfer ── agents ── cube servers ── predictor

`clickline up` starts one, `clickline status` and `clickline down` find it by its state directory (`suite_state`).
Transfer reads versions from the file server by HTTP, as it would from another machine. One supervisor looks after all
processes: `poll` starts those again that have died, and writes suite.json when something has changed. Use a suite from
one thread that lives as long as it.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

from clickline.errors import JobError, PeerError
from clickline.launch.local_cube import LocalCube
from clickline.launch.process_files import ProcessFiles
from clickline.launch.scaling.cube_scaling import CubeScaling
from clickline.launch.scaling.scale_file import MOST_REPLICAS, MOST_SHARDS, ScaleFile
from clickline.launch.suite_description import MODEL, REPLICAS, SHARDS, WORKERS, SuiteDescription
from clickline.launch.suite_record import SuiteRecord, component_records
from clickline.launch.suite_state import supervisor_record, write_suite, write_token
from clickline.net.listening_sockets import VARIABLE as LISTENER
from clickline.net.listening_sockets import bind
from clickline.processes.heartbeats.heartbeat_monitor import STALL_AFTER
from clickline.processes.process import Spec
from clickline.processes.process_events import ProcessEvent
from clickline.processes.process_group import ProcessGroup
from clickline.processes.restart_policy import SERVING
from clickline.processes.supervisor import Supervisor
from clickline.serve.serve_settings import read_suite_config

DIRECTORY = "suite/cube"
"""For copies of versions, ready files and logs, below the state directory: not where runs are looked for."""
PORT = 8010
HOST = "127.0.0.1"
MOST_WORKERS = 1024
_TRIES = 4
"""Deaths of one process before the suite has ever served."""
_GRACE = 12.0
"""Seconds to stop in: a predictor finishes what it has begun."""
_INTERVAL = 0.5
"""Seconds between transfer's looks at the file server."""
_WRITE_EVERY = 0.2
_WORKER_STALL_AFTER = 10.0
_ENDINGS = 100
"""Deaths that are kept of a suite that has served."""


def checked_size(*, shards: int, replicas: int, workers: int) -> None:
    """Raises JobError if a suite cannot have this size."""
    bounds = {
        "shards": (shards, MOST_SHARDS),
        "replicas": (replicas, MOST_REPLICAS),
        "workers": (workers, MOST_WORKERS),
    }
    for name, (value, most) in bounds.items():
        if not 1 <= value <= most:
            raise JobError(f"{name} must be 1 to {most} but got {value!r}")


class Suite(ProcessGroup):
    """`with Suite(state) as suite: suite.wait_for(version); …; suite.poll()`; nothing is left running afterwards.

    Claim the state directory first (`suite_state.claimed`).
    """

    def __init__(
        self,
        state: Path,
        *,
        model: str = MODEL,
        port: int = PORT,
        shards: int = SHARDS,
        replicas: int = REPLICAS,
        workers: int = WORKERS,
        wait: float = 5.0,
        stall_after: float = STALL_AFTER,
        serve: Path | None = None,
        env: Mapping[str, Mapping[str, str]] | None = None,
        on_event: Callable[[ProcessEvent], object] = lambda _: None,
    ) -> None:
        """`port` is the predictor's, if it is free; `env` adds to processes' environments, by role or name.

        A component without a heartbeat for `stall_after` seconds is killed and started again; 0 is never. `serve` is a
        configuration of the predictor, to which the suite's own model is added.
        """
        self.state, self.model = state.absolute(), model
        self.store = self.state / "versions"
        self.directory = self.state / DIRECTORY
        self.process_files = ProcessFiles(self.directory)
        self.token = secrets.token_hex(16)
        self._port, self._env = port, dict(env or {})
        self.description = SuiteDescription(
            model=model, shards=shards, replicas=replicas, workers=workers, interval=_INTERVAL, wait=wait
        )
        self._stall_after, self._serve = stall_after, serve
        super().__init__()
        self.supervisor = Supervisor([], restarts=None, on_event=on_event, grace=_GRACE)
        self._cube: LocalCube | None = None
        self._started = time.time()
        self._written: SuiteRecord = {}
        self._written_at = 0.0
        self._has_served = False
        self._scaling: CubeScaling | None = None

    @property
    def cube(self) -> LocalCube:
        if self._cube is None:
            raise PeerError("the cube is not started yet")
        return self._cube

    @property
    def http(self) -> str:
        """The predictor's address; empty until it has a version to serve."""
        return self.process_files.address("predictor")

    @property
    def files(self) -> str:
        """The file server's address."""
        return self.process_files.address("fileserver")

    def poll(self) -> None:
        """Look after all processes once. Raises PeerError when things cannot go on."""
        self.supervisor.poll()
        if not self._has_served:
            self._give_up_if_hopeless()
        else:
            del self.supervisor.endings[:-_ENDINGS]
        if self._scaling is not None:
            self._scaling.step()
        if time.monotonic() - self._written_at > _WRITE_EVERY:
            self.tell()

    def _give_up_if_hopeless(self) -> None:
        """Raise PeerError for a process that dies again and again before the suite has ever served.

        It will not serve, and an error now is better than a timeout later.
        """
        self._has_served = bool(self.http)
        deaths = Counter(ending.name for ending in self.supervisor.endings)
        for ending in self.supervisor.endings:
            if deaths[ending.name] >= _TRIES:
                last = "\n  ".join(ending.tail) or "nothing"
                raise PeerError(f"{ending.name} cannot be started, {ending.reason}; its log says\n  {last}")

    def until(self, condition: Callable[[], bool], *, seconds: float = 180.0, what: str, every: float = 0.02) -> None:
        """Look after the processes until the condition holds."""
        give_up = time.monotonic() + seconds
        while not condition():
            self.poll()
            if time.monotonic() > give_up:
                raise PeerError(f"{what} did not happen within {seconds:g} s; logs are in {self.directory / 'logs'}")
            time.sleep(every)

    def tell(self) -> None:
        """Write suite.json if something has changed."""
        self._written_at = time.monotonic()
        record = self.record()
        if record != self._written:
            write_suite(self.state, record)
            self._written = record

    def record(self) -> SuiteRecord:
        """What suite.json holds."""
        cube = self._cube
        return {
            **supervisor_record(started=self._started),
            "phase": "serving" if self.http else "starting",
            "http": self.http or None,
            "model": self.model,
            "store": str(self.store),
            "token_file": str(self._token_file),
            "files": self.files or None,
            "transfer": self.process_files.address("transfer") or None,
            "cube": {"name": self.model, "servers": cube.servers if cube else []},
            "workers": self.description.workers,
            "scale": self._scaling.record() if self._scaling is not None else None,
            "sockets": str(cube.sockets) if cube and cube.servers else None,
            "components": component_records(self.supervisor, self.process_files, places=cube.places if cube else {}),
        }

    def _start(self) -> None:
        self._token_file = write_token(self.state, self.token)
        # Ready files of an earlier suite name ports that are not ours: the predictor would seem to serve at once.
        for role in ("fileserver", "predictor"):
            self.process_files.ready(role).unlink(missing_ok=True)
        self.store.mkdir(parents=True, exist_ok=True)
        # Before anything is started: what runs is stopped if a later step fails.
        self._stack.callback(self.supervisor.stop)
        self.supervisor.start()
        command = self.description.file_server(root=str(self.store), listen=f"{HOST}:0")
        # Without a token it takes no uploads: versions come into its directory by `publish` alone.
        self.supervisor.add(self._spec("fileserver", command, token=""))
        self.until(lambda: bool(self.files), what="the file server's start")
        self._cube = LocalCube(
            self.directory,
            store=self.files,
            name=self.model,
            token=self.token,
            interval=self.description.interval,
            env=self._env,
            restarts=None,
            stall_after=self._stall_after,
            supervisor=self.supervisor,
            poll=self.poll,
            shards=self.description.shards,
            replicas=self.description.replicas,
            wait=self.description.wait,
        )
        self._stack.enter_context(self._cube)
        self._scaling = CubeScaling(self._cube, ScaleFile(self.state))
        self._stack.callback(self._scaling.close)
        # What is pushed last ends first: our copy of the listening socket, so that the connections that a stopping
        # predictor finds are the last; then the predictor, which reads from the others; then the cube.
        self._stack.callback(self.supervisor.stop, "predictor")
        listener = self._listen()
        self._stack.callback(listener.close)
        self.supervisor.add(self._predictor(listener))
        self.tell()

    def _listen(self) -> socket.socket:
        """The predictor's socket is kept here: while it is started again, connections wait instead of being refused."""
        try:
            return bind(HOST, self._port)
        except PeerError:
            return bind(HOST, 0)

    def _predictor(self, listener: socket.socket) -> Spec:
        listen = f"{HOST}:{listener.getsockname()[1]}"
        if self._serve is None:
            layouts = f"layouts:{self.cube.members.file}"
            command = self.description.predictor(store=str(self.store), cube=layouts, listen=listen)
        else:
            layouts = str(self.cube.members.file)
            config = read_suite_config(self._serve, model=self.model, store=str(self.store), layouts=layouts)
            file = self.directory / "serve.json"
            file.write_text(config.model_dump_json(), encoding="utf-8")
            command = self.description.configured_predictor(str(file), listen=listen)
        # 0 means never, for the suite as for the workers, and `min` keeps it.
        command += ["--stall-after", f"{min(self._stall_after, _WORKER_STALL_AFTER):g}"]
        # What it keeps for its workers is gone with the sockets, also when it is killed.
        env = {"TMPDIR": str(self.cube.sockets), LISTENER: str(listener.fileno())}
        return self._spec("predictor", command, token=self.token, fds=(listener.fileno(),), **env)

    def _spec(self, role: str, command: list[str], *, token: str, fds: tuple[int, ...] = (), **env: str) -> Spec:
        ready = ["--ready-file", str(self.process_files.ready(role))]
        own = {**self._env.get(role, {}), **self._env.get(f"{role}.0", {})}
        return Spec(
            role=role,
            rank=0,
            argv=[sys.executable, "-m", "clickline", *command, *ready],
            # Both are set, so that a token in the user's environment has no effect on the suite.
            env={"CLICKLINE_TOKEN": token, "CLICKLINE_TOKEN_FILE": "", **env, **own},
            log=self.process_files.log(role),
            pass_fds=fds,
            policy=SERVING,
            stall_after=self._stall_after,
        )
