"""What is started on one machine: every process learns its place, the token goes by environment alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.launch.environment import read_role
from clickline.launch.local.local_processes import coordinator_address, local_specs, private_sockets
from clickline.processes.process import Spec

SOCKETS = Path("/run/s")
TOKEN = "0123456789abcdef" * 2


def specs(cluster: dict[str, object], tmp_path: Path) -> list[Spec]:
    job = Job.model_validate({"cluster": cluster})
    return local_specs(
        job,
        job_file=tmp_path / "job.json",
        directory=tmp_path / "run",
        sockets=SOCKETS,
        token=TOKEN,
        coordinator=coordinator_address(job, sockets=SOCKETS).replace(":0", ":7000"),
    )


def test_every_process_finds_its_place(tmp_path: Path) -> None:
    started = specs({"pservers": 2, "trainers": 2, "threads": 3}, tmp_path)
    assert [spec.name for spec in started] == ["pserver.0", "pserver.1", "trainer.0", "trainer.1"]
    for spec in started:
        place = read_role(spec.role, environ=spec.env)
        assert place.name == spec.name
        assert place.pservers == ["unix:/run/s/pserver.0.sock", "unix:/run/s/pserver.1.sock"]
        assert (place.coordinator, place.trainers, place.hosts_coordinator) == (
            "unix:/run/s/coordinator.sock",
            2,
            False,
        )
        assert (place.token, place.directory) == (TOKEN.encode(), tmp_path / "run")
        assert place.bind == (place.pservers[place.rank] if spec.role == "pserver" else "")
        assert place.threads == (3 if spec.role == "trainer" else 0)
        assert spec.env["CLICKLINE_NODE"] == "0"  # whatever the environment of the launcher says
        assert spec.log == tmp_path / "run" / "logs" / f"{spec.name}.log"
        assert list(spec.argv[1:]) == ["-m", "clickline", spec.role, str(tmp_path / "job.json")]


def test_the_token_is_not_among_the_arguments(tmp_path: Path) -> None:
    """Anybody on the machine can read those."""
    assert not any(TOKEN in word for spec in specs({"pservers": 1}, tmp_path) for word in spec.argv)


def test_cores_are_divided_among_the_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(6)))
    for trainers, threads in [(1, "6"), (2, "3"), (4, "1"), (9, "1")]:
        last = specs({"pservers": 1, "trainers": trainers}, tmp_path)[-1]
        assert last.env["CLICKLINE_THREADS"] == last.env["OMP_NUM_THREADS"] == threads


def test_tcp_gives_each_server_a_port_of_its_own(tmp_path: Path) -> None:
    place = read_role(environ=specs({"pservers": 3, "transport": "tcp"}, tmp_path)[2].env)
    assert len(set(place.pservers)) == 3
    assert place.bind == place.pservers[2]
    assert place.bind.startswith("tcp:127.0.0.1:")


def test_older_names_in_our_own_environment_do_not_mislead_children(tmp_path: Path) -> None:
    older = {
        "POD_IP": "10.0.0.1",
        "PADDLE_PORT": "1",
        "PADDLE_TRAINER_ID": "7",
        "PADDLE_TRAINERS_NUM": "9",
        "CPU_NUM": "9",
    }
    for spec in specs({"pservers": 2, "trainers": 2, "transport": "tcp", "threads": 1}, tmp_path):
        place = read_role(environ={**older, "CLICKLINE_BIND": "tcp:10.0.0.1:1", **spec.env})
        assert (place.name, place.trainers) == (spec.name, 2)
        assert place.bind == (place.pservers[place.rank] if spec.role == "pserver" else "")


def test_sockets_are_private_short_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    with private_sockets() as directory:
        assert directory.stat().st_mode & 0o777 == 0o700
        (directory / "pserver.0.sock").touch()
    assert not directory.exists()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + "long" * 30)
    with private_sockets() as directory:
        assert len(str(directory / "pserver.4095.sock")) < 100
