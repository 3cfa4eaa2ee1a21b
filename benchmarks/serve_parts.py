"""What the serving benchmark is about: the model, its version in a store, requests in every form, servers, wrk.

Model: that of the training benchmark with dimension 16: 26 slots × 16 + 13 dense → 400 → 400 → 400 → 1. Clickline is
sent raw features; peers are sent ready inputs, the rows that Clickline looks up itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from clickline.config import Job
from clickline.launch.local.local_processes import free_ports
from clickline.launch.local.training_run import train_job
from clickline.publish.publisher import Settings, publish
from clickline.versions.store import open_store
from datasets import Rows
from peers import HERE, Environment, PeerError, peers_python
from training import job_for

SERVING = Environment("peers-serve", variable="CLICKLINE_PEERS_SERVE", size="0.6 GB")
SLOTS, DIM, DENSE, ROWS = 26, 16, 13, 16
NAME = "ctr"
INTEGERS = [f"I{i}" for i in range(1, 14)]
CATEGORIES = [f"C{i}" for i in range(1, 27)]
_START = 60.0


@dataclass(frozen=True)
class Form:
    """A request, ready to be sent again and again."""

    path: str
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Measured:
    requests_per_second: float
    p50: float
    """Microseconds."""
    p99: float


def published(rows: Rows, directory: Path) -> Path:
    """A store with one version of the model, trained for an epoch."""
    settings = job_for(rows.train).model_dump(mode="json")
    settings["model"]["embedding_dim"] = DIM
    settings["train"] |= {"epochs": 1, "tensorboard": False}
    settings |= {"name": "bench", "output": str(directory)}
    result = train_job(Job.model_validate(settings), fresh=True)
    store = directory / "versions"
    publish(result.checkpoint, open_store(str(store)), Settings())
    return store


def raw_rows(rows: Rows) -> list[dict[str, Any]]:
    """The first rows of the test text; a missing integer is sent as 0, so that all forms can hold it."""
    found = []
    with rows.test.open(encoding="utf-8") as lines:
        for line, _ in zip(lines, range(ROWS), strict=False):
            values = line.rstrip("\n").split("\t")[1:]
            integers = {name: int(text or 0) for name, text in zip(INTEGERS, values[:13], strict=True)}
            found.append({**integers, **dict(zip(CATEGORIES, values[13:], strict=True))})
    return found


def own_json(raw: list[dict[str, Any]]) -> Form:
    body = json.dumps({"instances": raw}, separators=(",", ":")).encode()
    return Form("/predict", body, {"Content-Type": "application/json"})


def own_binary(raw: list[dict[str, Any]]) -> Form:
    """Open Inference Protocol with binary tensors: integers as INT64, categories as BYTES; the answer in bytes, too."""
    inputs, contents = [], []
    for name in (*INTEGERS, *CATEGORIES):
        if name in INTEGERS:
            content = np.array([row[name] for row in raw], np.int64).tobytes()
        else:
            texts = [row[name].encode() for row in raw]
            content = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        kind = "INT64" if name in INTEGERS else "BYTES"
        inputs.append(
            {"name": name, "shape": [len(raw)], "datatype": kind, "parameters": {"binary_data_size": len(content)}}
        )
        contents.append(content)
    asked = {"inputs": inputs, "outputs": [{"name": "probability", "parameters": {"binary_data": True}}]}
    header = json.dumps(asked, separators=(",", ":")).encode()
    headers = {"Inference-Header-Content-Length": str(len(header)), "Content-Type": "application/octet-stream"}
    return Form(f"/v2/models/{NAME}/infer", header + b"".join(contents), headers)


def ready_inputs(*, seed: int = 1) -> dict[str, np.ndarray[Any, np.dtype[np.float32]]]:
    """What a peer is handed. Which numbers does not matter; how many digits does: float32, as they would be written."""
    drawn = np.random.default_rng(seed)
    return {
        "embedding": drawn.normal(0, 0.05, (ROWS, SLOTS, DIM)).astype(np.float32),
        "dense": drawn.normal(1, 1, (ROWS, DENSE)).astype(np.float32),
    }


def peer_json(path: str) -> Form:
    feeds = ready_inputs()
    text = ",".join(f'"{name}":{_written(feed)}' for name, feed in feeds.items())
    return Form(path, f"{{{text}}}".encode(), {"Content-Type": "application/json"})


def peer_v2(path: str) -> Form:
    inputs = ",".join(
        f'{{"name":"{name}","datatype":"FP32","shape":{list(feed.shape)},"data":{_written(feed.reshape(-1))}}}'
        for name, feed in ready_inputs().items()
    )
    return Form(path, f'{{"inputs":[{inputs}]}}'.encode(), {"Content-Type": "application/json"})


def peer_binary(path: str) -> Form:
    body = b"".join(feed.tobytes() for feed in ready_inputs().values())
    return Form(path, body, {"Content-Type": "application/octet-stream"})


def _written(values: Any) -> str:
    if values.ndim > 1:
        return f"[{','.join(_written(part) for part in values)}]"
    return f"[{','.join(str(value) for value in values)}]"  # a float32's shortest form, as a client would send it


@contextmanager
def peer_server(script: str, network: Path, form: Form) -> Iterator[str]:
    """A peer's server, ready to answer the form."""
    [port] = free_ports("127.0.0.1", 1)
    command = [str(peers_python(SERVING)), str(HERE / "peers" / f"{script}.py"), str(network), str(port)]
    with _running(command) as process:
        yield _ready(process, f"http://127.0.0.1:{port}", form)


@contextmanager
def own_server(store: Path, form: Form, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """`clickline serve` with one worker."""
    [port] = free_ports("127.0.0.1", 1)
    command = [sys.executable, "-m", "clickline", "serve", str(store), "--name", NAME]
    command += ["--listen", f"127.0.0.1:{port}", *arguments]
    with _running(command, env=env) as process:
        yield _ready(process, f"http://127.0.0.1:{port}", form)


@contextmanager
def command_server(
    command: Callable[[int], list[str]], form: Form, *, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """A server that a command starts at the port that it is given."""
    [port] = free_ports("127.0.0.1", 1)
    with _running(command(port), env=env) as process:
        yield _ready(process, f"http://127.0.0.1:{port}", form)


@contextmanager
def _running(command: list[str], *, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[bytes]]:
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
    # A group of its own: some peers leave processes behind when they are told to end.
    process = subprocess.Popen(
        command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _ready(process: subprocess.Popen[bytes], url: str, form: Form) -> str:
    give_up = time.monotonic() + _START
    while time.monotonic() < give_up and process.poll() is None:
        try:
            answer = httpx.post(url + form.path, content=form.body, headers=dict(form.headers), trust_env=False)
            if answer.status_code == 200:
                return url
        except httpx.HTTPError:
            pass
        time.sleep(0.05)
    raise PeerError(f"{url}{form.path} does not answer; its process ended with {process.poll()}")


def wrk(url: str, form: Form, directory: Path, *, clients: int, seconds: float) -> Measured:
    """Closed loop: every client sends its next request when it has the answer to its last."""
    if shutil.which("wrk") is None:
        raise PeerError("wrk is not there; it is the load generator of this benchmark: apt-get install wrk")
    body, headers = directory / "body", directory / "headers"
    body.write_bytes(form.body)
    headers.write_text("".join(f"{name}: {value}\n" for name, value in form.headers.items()), encoding="utf-8")
    command = ["wrk", "-t1", f"-c{clients}", f"-d{seconds:g}s", "--latency", "-s", str(HERE / "wrk_post.lua")]
    variables = {**os.environ, "BODY": str(body), "HEADERS": str(headers)}
    done = subprocess.run([*command, url + form.path], env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PeerError(f"wrk ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    found = json.loads(done.stdout.strip().rsplit("\n", 1)[-1])
    if found["failed"]:
        raise PeerError(f"{url}{form.path}: {found['failed']} of {found['requests']} requests failed")
    return Measured(found["requests"] / found["seconds"], found["p50"], found["p99"])
