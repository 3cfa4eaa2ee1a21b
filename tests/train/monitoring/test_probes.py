"""Probes of servers and trainers as Kubernetes asks them: processes of a job, each by its environment alone."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.clusters import settings_for
from support.eventually import eventually
from support.ports import port_range
from support.processes import ENVIRONMENT, start, write_job

Answer = tuple[int, str]
NO_ANSWER = 0


def asked(port: int, path: str, *, timeout: float = 10.0) -> Answer:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=timeout) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return NO_ANSWER, ""


class Processes:
    """Two servers, the first with the coordinator in it, and a trainer."""

    def __init__(self, file: Path) -> None:
        self._file, first = file, port_range(16)
        self.ports = {"pserver.0": first + 2, "pserver.1": first + 3, "trainer.0": first + 4}
        self._env = {
            **ENVIRONMENT,
            "CLICKLINE_PSERVERS": f"tcp:127.0.0.1:{first},tcp:127.0.0.1:{first + 1}",
            "CLICKLINE_TRAINERS": "1",
            "CLICKLINE_COORDINATOR_PORT": str(first + 5),
            "CLICKLINE_TOKEN": "0123456789abcdef",
        }
        self.running: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str) -> None:
        role, _, rank = name.partition(".")
        env = {**self._env, "CLICKLINE_RANK": rank, "CLICKLINE_METRICS": f"127.0.0.1:{self.ports[name]}"}
        self.running[name] = start(role, self._file, env=env)

    def until(self, name: str, path: str, code: int) -> str:
        def answers() -> Answer | None:
            answer = asked(self.ports[name], path, timeout=0.5)
            return answer if answer[0] == code else None

        alive = self.running[name] if code != NO_ANSWER else None
        return str(eventually(answers, what=f"{code} of {path} of {name}", process=alive)[1])

    def stop(self) -> None:
        for process in self.running.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


@pytest.fixture
def processes(criteo: dict[str, str], tmp_path: Path) -> Iterator[Processes]:
    cluster = {"warn_after": 1.0, "trainers": 1}
    settings = settings_for(criteo, tmp_path, "probed", cluster=cluster, train={"epochs": 10_000})
    processes = Processes(write_job(tmp_path / "job.yaml", settings))
    try:
        yield processes
    finally:
        processes.stop()


@pytest.mark.heavy
def test_probes_tell_who_lives_and_who_takes_part(processes: Processes) -> None:
    processes.start("pserver.0")
    processes.start("pserver.1")
    for name in ("pserver.0", "pserver.1"):
        processes.until(name, "/livez", 200)
        # Servers wait for a trainer, which tells them the model: neither may wait for the other's readiness.
        assert json.loads(processes.until(name, "/readyz", 503))["complaints"][0].startswith(name)
    processes.start("trainer.0")
    for name in processes.ports:
        processes.until(name, "/readyz", 200)

    port = processes.ports["pserver.0"]
    status = eventually(lambda: json.loads(asked(port, "/status")[1])["rows"], what="rows")
    assert status > 0
    names = [member["name"] for member in json.loads(asked(port, "/status")[1])["members"]]
    assert names == ["coordinator.0", "pserver.0", "pserver.1", "trainer.0"]
    families = list(text_string_to_metric_families(asked(port, "/metrics")[1]))
    assert len({family.name for family in families}) == len(families)
    roles = {sample.labels.get("role") for family in families for sample in family.samples}
    assert {"coordinator", "pserver"} <= roles
    assert asked(processes.ports["pserver.1"], "/status")[0] == 404

    stopped = processes.running["trainer.0"]
    stopped.send_signal(signal.SIGSTOP)
    processes.until("trainer.0", "/livez", NO_ANSWER)
    assert asked(port, "/livez")[0] == 200
    stopped.send_signal(signal.SIGCONT)
    processes.until("trainer.0", "/readyz", 200)

    processes.running["pserver.0"].send_signal(signal.SIGSTOP)  # and the coordinator with it
    lost = processes.until("pserver.1", "/readyz", 503)
    assert "has not heard of the coordinator for" in lost
    assert asked(processes.ports["pserver.1"], "/livez")[0] == 200  # to restart it would not help
    processes.running["pserver.0"].send_signal(signal.SIGCONT)
    processes.until("pserver.1", "/readyz", 200)
