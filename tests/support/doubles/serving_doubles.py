"""A predictor that computes nothing, and a real worker around it, on a real socket, in a thread.

What it answers is known beforehand (0.25 for every row, by version 7), and a test decides when: at once, when it lets
go, or never, because the queue is full.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from clickline.config.features import Dense, Slot
from clickline.data.schema import Schema
from clickline.launch.predictor_processes import PROTOCOLS
from clickline.net.request_errors import refuse
from clickline.serve.http.auth import TokenAuth
from clickline.serve.http.connection_table import ConnectionTimeouts
from clickline.serve.metrics.counters import Counters
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.metrics.request_series import series_of
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.predictor.feature_reader import FeatureReader
from clickline.serve.serve_settings import ServeConfig
from clickline.serve.worker import Worker

SCHEMA = Schema(
    format="parquet",
    labels=("label",),
    slots=(Slot(name="C1"), Slot(name="C2")),
    dense=(Dense(name="I1", normalise="none"),),
)
VERSION = 7
PROBABILITY = 0.25
BODY = b'{"instances":[{"C1":"68fd1e64","C2":"80e26c9b","I1":3}]}'
Done = Callable[[Any], None]


class StubServed:
    """A model with two versions."""

    def __init__(self) -> None:
        self.current = SimpleNamespace(
            version=VERSION,
            schema=SCHEMA,
            labels=("label",),
            reader=FeatureReader(SCHEMA),
            requests=None,
            created=1000.0,
            watermark=None,
        )

    versions = (VERSION - 1, VERSION)

    def status(self) -> dict[str, Any]:
        return {"version": VERSION, "versions": list(self.versions)}


class StubPredictor:
    """`hold` keeps answers back until `let_go`; `full` refuses everything; `missing` has no version yet."""

    def __init__(self, *, counts: MetricSink | None = None, hold: bool = False, at_once: bool = False) -> None:
        self.models = {"ctr": StubServed()}
        self.names = ["ctr"]
        self.hold, self.at_once, self.full, self.missing, self.broken = hold, at_once, False, False, False
        self.asked: list[tuple[str | None, int | None, Any]] = []
        self._counts = counts
        self._held: list[tuple[Done, PredictionInput]] = []
        self._arrived = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def choose(self, model: str | None = None, *, version: int | None = None, key: Any = None) -> Any:
        if not self.at_once:
            self.asked.append((model, version, key))
        if self.missing:
            raise refuse("not_ready", "no version yet", 1.0)
        if model not in (None, "ctr"):
            raise refuse("unknown_model", f"there is no model {model}; known models: ctr")
        if version not in (None, VERSION, VERSION - 1):
            raise refuse("unknown_version", f"model ctr has no version {version}")
        served = self.models["ctr"]
        return SimpleNamespace(
            model_version=served.current, model="ctr", tag="", served=served, shadow=None, series=series_of("ctr")
        )

    def submit(self, chosen: Any, question: PredictionInput, *, done: Done, **_: Any) -> None:
        if self.full:
            raise refuse("overloaded", "256 requests are waiting, which is the limit", 0.3)
        if self.broken:
            raise ZeroDivisionError("a bug")
        if self.at_once:
            done(_answer(question))
            return
        with self._arrived:
            self._held.append((done, question))
            self._arrived.notify_all()

    def wait_for(self, requests: int) -> None:
        """Until so many are held."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self._held) >= requests, 20)

    @property
    def held(self) -> int:
        return len(self._held)

    def let_go(self, *, backwards: bool = False) -> None:
        """Answer what is held, and from now on at once."""
        with self._arrived:
            if backwards:
                self._held.reverse()
            self.hold = False
            self._arrived.notify_all()

    def attach(self, wake: Any) -> None:
        """It computes by itself."""

    def ready(self) -> bool:
        return not self.missing

    def unready_models(self) -> list[str]:
        return ["ctr"] if self.missing else []

    def data_times(self) -> dict[str, float]:
        return {"ctr": self.models["ctr"].current.created}

    def status(self) -> dict[str, Any]:
        return {"ready": self.ready(), "default": "ctr", "models": {"ctr": self.models["ctr"].status()}}

    def drain(self, seconds: float) -> bool:
        return True

    def close(self) -> None:
        with self._arrived:
            self._closed = True
            self._arrived.notify_all()
        self._thread.join(20)

    def _work(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._closed or (self._held and not self.hold))
                if self._closed:
                    return
                held, self._held = self._held, []
            for done, question in held:
                if self._counts is not None:
                    self._counts.count("clickline_rows_total", len(question.batch))
                done(_answer(question))


def _answer(question: PredictionInput) -> PredictionResult:
    return PredictionResult(np.full((len(question.batch), 1), PROBABILITY, np.float32), VERSION, "ctr", "", ("label",))


@dataclass
class Server:
    """A worker that runs."""

    port: int
    worker: Worker
    predictor: StubPredictor
    counts: Counters
    thread: threading.Thread
    directory: Path
    secure: bool = False
    closed: list[bool] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http{'s' * self.secure}://127.0.0.1:{self.port}"

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)


@contextmanager
def serving(
    directory: Path,
    *,
    timing: ConnectionTimeouts | None = None,
    auth: TokenAuth | None = None,
    tls: ssl.SSLContext | None = None,
    grace: float = 10.0,
    hold: bool = False,
    at_once: bool = False,
    limits: dict[str, Any] | None = None,
    **keys: Any,
) -> Iterator[Server]:
    """A worker for as long as the `with` lasts. `keys` are those of the configuration."""
    config = ServeConfig.model_validate(
        {"models": {"ctr": {"store": "none"}}, "grpc": False, "limits": limits or {}} | keys
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    counts = Counters(directory / "0.counts")
    predictor = StubPredictor(counts=counts, hold=hold, at_once=at_once)
    worker = Worker(
        config,
        predictor,  # type: ignore[arg-type]
        protocols=PROTOCOLS,
        listener=listener,
        counts=counts,
        directory=directory,
        auth=auth or TokenAuth(host="127.0.0.1", token=None, certificates=False),
        tls=tls,
        timeouts=timing,
        grace=grace,
    )
    thread = threading.Thread(target=worker.run, kwargs={"signals": False}, daemon=True)
    thread.start()
    try:
        yield Server(port, worker, predictor, counts, thread, directory, secure=tls is not None)
    finally:
        worker.stop()
        worker.stop()  # at once, whatever a test has left open
        thread.join(20)
        assert not thread.is_alive()
