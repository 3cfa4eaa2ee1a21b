"""Whether a suite is well: asked of its components, real HTTP, each of them once as it should be and once as not."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clickline.launch.suite_health import examine
from clickline.launch.suite_state import claimed, write_suite
from support.processes import run

WELL: dict[str, tuple[int, Any]] = {
    "/fileserver/health": (200, {"status": "ok"}),
    "/transfer/status": (200, {"version": 7, "rollout": None, "problem": "", "held": 0, "instances": []}),
    "/agent/agent/status": (200, {"status": "RUNNING"}),
    "/cube/health": (200, {"status": "ok", "version": 7}),
    "/predictor/status": (200, {"models": {"ctr": {"version": 7}}}),
    "/predictor/v2/health/ready": (200, {}),
}


class Parts(ThreadingHTTPServer):
    """All components of a suite at one address, by the first part of the path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = dict(WELL)


class Handler(BaseHTTPRequestHandler):
    server: Parts

    def do_GET(self) -> None:
        code, answer = self.server.answers.get(self.path, (404, {}))
        self.send_response(code)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def parts() -> Iterator[Parts]:
    with Parts() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def write(state: Path, parts: Parts, /, **changed: Any) -> None:
    components = [
        {
            "name": f"{role}.0",
            "role": role,
            "rank": 0,
            "state": "running",
            "pid": os.getpid(),
            "restarts": 0,
            "reason": "",
            "address": f"http://127.0.0.1:{parts.server_port}/{role}",
            **(changed if role == "agent" else {}),
        }
        for role in ("fileserver", "transfer", "cube", "agent", "predictor")
    ]
    facts = {"pid": os.getpid(), "started": 0.0, "phase": "serving", "http": "http://…", "model": "ctr"}
    write_suite(state, {**facts, "components": components})


def test_a_suite_that_is_well(tmp_path: Path, parts: Parts) -> None:
    assert examine(tmp_path) is None
    with claimed(tmp_path):
        write(tmp_path, parts)
        found = examine(tmp_path)
        assert found is not None
        assert (found["well"], found["complaints"], found["version"]) == (True, [], 7)
        assert {one["role"]: one["version"] for one in found["components"]} == {
            "fileserver": None,
            "transfer": 7,
            "cube": 7,
            "agent": None,
            "predictor": 7,
        }
        done = run("status", tmp_path)
        assert done.returncode == 0, done.stderr
        for word in ("version 7 in service", "fileserver.0", "transfer.0", "agent.0", "cube.0", "predictor.0", "well"):
            assert word in done.stdout


@pytest.mark.parametrize(
    ("path", "answer", "complaint"),
    [
        ("/cube/health", (503, {"status": "empty", "version": 0}), "cube.0: empty"),
        ("/cube/health", (200, {"status": "ok", "version": 6}), "cube.0: serves version 6, not 7"),
        ("/predictor/status", (200, {"models": {"ctr": {"version": 6}}}), "predictor.0: serves version 6, not 7"),
        ("/predictor/v2/health/ready", (503, {}), "predictor.0: not ready: no complete version"),
        ("/fileserver/health", (500, {}), "fileserver.0: answers 500"),
        ("/agent/agent/status", (200, "RUNNING"), "agent.0: answers RUNNING"),
        (
            "/transfer/status",
            (200, {"version": 7, "rollout": None, "problem": "version 8 is damaged"}),
            "transfer: version 8 is damaged",
        ),
    ],
    ids=["empty", "behind", "predictor behind", "not ready", "failing", "nonsense", "problem"],
)
def test_what_is_not_well_is_said(
    tmp_path: Path, parts: Parts, path: str, answer: tuple[int, Any], complaint: str
) -> None:
    parts.answers[path] = answer
    with claimed(tmp_path):
        write(tmp_path, parts)
        found = examine(tmp_path)
        assert found is not None
        assert (found["well"], found["complaints"]) == (False, [complaint])


@pytest.mark.parametrize(
    ("state", "complaint"),
    [
        ("running", "agent.0: answers, but has died 3 times lately; the last time: killed by SIGSEGV (11)"),
        ("waiting", "agent.0: waiting: killed by SIGSEGV (11) (3 deaths lately)"),
    ],
)
def test_one_that_dies_again_and_again_is_complained_about(
    tmp_path: Path, parts: Parts, state: str, complaint: str
) -> None:
    with claimed(tmp_path):
        write(tmp_path, parts, state=state, deaths=3, reason="killed by SIGSEGV (11)")
        found = examine(tmp_path)
        assert found is not None
        assert found["complaints"] == [complaint]
        write(tmp_path, parts, deaths=2, reason="killed by SIGSEGV (11)")
        found = examine(tmp_path)
        assert found is not None
        assert found["well"]


def test_who_is_behind_while_a_version_is_on_its_way_is_well(tmp_path: Path, parts: Parts) -> None:
    parts.answers["/transfer/status"] = (200, {"version": 6, "rollout": {"version": 7}})
    with claimed(tmp_path):
        write(tmp_path, parts)
        found = examine(tmp_path)
        assert found is not None
        assert (found["well"], found["version"], found["rolling"]) == (True, 6, 7)


def test_a_dead_component_fails_the_verb(tmp_path: Path, parts: Parts) -> None:
    with claimed(tmp_path):
        write(tmp_path, parts, state="waiting", reason="killed by SIGKILL (9)", pid=None)
        done = run("status", tmp_path, "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["complaints"] == ["agent.0: waiting: killed by SIGKILL (9)"]


def test_a_suite_whose_supervisor_was_killed_is_not_well(tmp_path: Path, parts: Parts) -> None:
    write(tmp_path, parts)
    done = run("status", tmp_path)
    assert done.returncode == 1
    assert "is gone without having stopped it" in " ".join(done.stdout.split())
    assert run("down", tmp_path).returncode == 0
    again = run("down", tmp_path)
    assert (again.returncode, again.stdout) == (0, f"no suite is up in {tmp_path}\n")
