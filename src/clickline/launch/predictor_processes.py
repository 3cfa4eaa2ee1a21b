"""A predictor as processes: one that listens, and workers that inherit its socket; or, for one worker, itself.

The parent binds before anything else and never accepts, so a worker that dies takes only its own connections with it:
those that still wait to be accepted go to the others. Workers find what they share (configuration, counters, sockets)
in a private directory, and the token in the environment.

    python -m clickline.launch.predictor_processes DIRECTORY RANK DESCRIPTOR       one worker, started by the parent
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clickline.compat.elasticctr.elasticctr_protocol import ElasticCtrProtocol
from clickline.compat.paddle_serving.general_model_service import GeneralModelService
from clickline.errors import ClicklineError, PeerError
from clickline.files.json_state import write_state
from clickline.launch.local.local_processes import private_sockets
from clickline.net.addresses import url_of
from clickline.net.listening_sockets import bind, inherited_listener
from clickline.net.tokens import read_token
from clickline.processes.child import live_no_longer_than_parent, stopped_by_signals
from clickline.processes.heartbeats.heartbeat import Heartbeat
from clickline.processes.logs import set_up
from clickline.processes.process import Spec
from clickline.processes.restart_policy import SERVING
from clickline.processes.supervisor import Supervisor
from clickline.serve.http.auth import TokenAuth, tls_context
from clickline.serve.metrics.counters import Counters
from clickline.serve.protocols.json_rows import JsonRows
from clickline.serve.protocols.open_inference import OpenInference
from clickline.serve.protocols.prediction_protocol import PredictionProtocol
from clickline.serve.serve_settings import ServeConfig
from clickline.serve.worker import GRACE, Worker

if TYPE_CHECKING:
    from clickline.serve.predictor.predictor import Predictor

log = logging.getLogger("clickline.serve")
CONFIG = "serve.json"
WORKER = (sys.executable, "-m", "clickline.launch.predictor_processes")
Make = Callable[[ServeConfig, bytes | None, Counters], "Predictor"]
PROTOCOLS: tuple[PredictionProtocol, ...] = (
    OpenInference(),
    JsonRows(),
    ElasticCtrProtocol(),
    GeneralModelService(),
)
"""What predictors answer over HTTP."""
_TRIES = 20
"""Deaths of workers before all of them have ever been ready."""
_LOOK_EVERY = 0.02


def make_predictor(config: ServeConfig, token: bytes | None, counts: Counters) -> Predictor:
    """The real one."""
    from clickline.serve.predictor.configured_predictor import configured_predictor

    return configured_predictor(config, token=token or b"", counts=counts, on_loop=True)


def own_token() -> bytes | None:
    """What the environment holds, if anything. Raises JobError if it is too short to be one."""
    named = os.environ.get("CLICKLINE_TOKEN") or os.environ.get("CLICKLINE_TOKEN_FILE")
    return read_token(os.environ) if named else None


def serve(
    config: ServeConfig,
    *,
    host: str,
    port: int,
    ready: Path | None = None,
    on_listening: Callable[[str], None] = lambda _: None,
    make: Make = make_predictor,
    worker: Sequence[str] = WORKER,
) -> None:
    """Serve until a signal comes, then end in order. `ready` is written once there is a version to answer with.

    `make` and `worker` are for tests: what predicts, and the command that runs a worker.
    """
    token = own_token()
    heartbeat = Heartbeat.inherited()
    auth, tls = _authentication(config, host=host, token=token)
    with stopped_by_signals(), private_sockets() as directory:
        # A suite keeps the socket open itself: connections made while this process was started again are waiting in it.
        listener = inherited_listener() or bind(host, port)
        try:
            address = _address(listener, secure=tls is not None)
            on_listening(address)

            def tell() -> None:
                log.info("ready at %s", address)
                if ready is not None:
                    write_state(ready, {"http": address, "pid": os.getpid()})

            if config.workers == 1:
                run_worker(
                    config,
                    listener,
                    directory,
                    auth=auth,
                    tls=tls,
                    token=token,
                    on_ready=tell,
                    heartbeat=heartbeat,
                    make=make,
                )
            else:
                _run_workers(config, listener, directory, tell=tell, worker=worker, heartbeat=heartbeat)
        except KeyboardInterrupt:  # being told to stop is how a server ends
            pass
        finally:
            listener.close()


def run_worker(
    config: ServeConfig,
    listener: socket.socket,
    directory: Path,
    *,
    auth: TokenAuth,
    tls: ssl.SSLContext | None,
    token: bytes | None,
    on_ready: Callable[[], None],
    heartbeat: Heartbeat,
    rank: int = 0,
    make: Make = make_predictor,
) -> None:
    """A worker, in this process and thread."""
    counts = Counters(directory / f"{rank}.counts")
    Worker(
        config,
        make(config, token, counts),
        protocols=PROTOCOLS,
        listener=listener,
        counts=counts,
        directory=directory,
        auth=auth,
        tls=tls,
        rank=rank,
        workers=config.workers,
        on_ready=on_ready,
        on_turn=heartbeat.beat,
        # One that comes in another's place leaves connections to the rest until it can answer.
        ready_first=any(directory.glob("ready.*")),
    ).run()


def worker_main(arguments: Sequence[str], *, make: Make = make_predictor) -> None:
    """What a worker process does."""
    live_no_longer_than_parent()
    directory, rank, descriptor = Path(arguments[0]), int(arguments[1]), int(arguments[2])
    set_up("serve", rank)
    heartbeat = Heartbeat.inherited()
    with stopped_by_signals():
        try:
            config = ServeConfig.model_validate_json((directory / CONFIG).read_bytes())
            listener = socket.socket(fileno=descriptor)
            token = own_token()
            auth, tls = _authentication(config, host=listener.getsockname()[0], token=token)
            run_worker(
                config,
                listener,
                directory,
                auth=auth,
                tls=tls,
                token=token,
                on_ready=(directory / f"ready.{rank}").touch,
                heartbeat=heartbeat,
                rank=rank,
                make=make,
            )
        except ClicklineError as error:
            log.error("%s", error)
            raise SystemExit(error.exit_code) from None
        except KeyboardInterrupt:
            pass


def _run_workers(
    config: ServeConfig,
    listener: socket.socket,
    directory: Path,
    *,
    tell: Callable[[], None],
    worker: Sequence[str],
    heartbeat: Heartbeat,
) -> None:
    (directory / CONFIG).write_text(config.model_dump_json(), encoding="utf-8")
    specs = [
        Spec(
            role="serve",
            rank=rank,
            argv=[*worker, str(directory), str(rank), str(listener.fileno())],
            env={},
            log=None,
            pass_fds=(listener.fileno(),),
            policy=SERVING,
            stall_after=config.stall_after,
            replicas="serve",
        )
        for rank in range(config.workers)
    ]
    all_ready = False
    # A worker may take GRACE to finish its requests; only one that takes longer is killed.
    with Supervisor(specs, restarts=None, on_event=log.warning, grace=GRACE + 2.0) as supervisor:
        try:
            while not supervisor.finished():
                # Of the parent alone: each worker has a heartbeat of its own, which `poll` watches.
                heartbeat.beat()
                supervisor.poll()
                # Workers are started again for ever once they have served, but not if they never do.
                if len(supervisor.endings) >= _TRIES:
                    _give_up_unless(all_ready, supervisor)
                if not all_ready and all((directory / f"ready.{rank}").exists() for rank in range(config.workers)):
                    all_ready = True
                    tell()
                time.sleep(_LOOK_EVERY)
        finally:
            listener.close()  # ours first: then what a worker finds waiting at its end is the last there is


def _give_up_unless(served: bool, supervisor: Supervisor) -> None:
    """Workers that have never all been ready will not be; of those that have, only the last deaths are kept."""
    if not served:
        raise PeerError(f"workers cannot be started: {supervisor.endings[-1].reason}; the log has what they said")
    del supervisor.endings[:-1]


def _authentication(config: ServeConfig, *, host: str, token: bytes | None) -> tuple[TokenAuth, ssl.SSLContext | None]:
    tls = config.tls
    auth = TokenAuth(host=host, token=token, certificates=tls is not None and bool(tls.clients))
    if tls is None:
        return auth, None
    return auth, tls_context(certificate=tls.certificate, key=tls.key, clients=tls.clients or None)


def _address(listener: socket.socket, *, secure: bool) -> str:
    host, port = listener.getsockname()[:2]
    return url_of(host, port, scheme="https" if secure else "http")


if __name__ == "__main__":
    worker_main(sys.argv[1:])
