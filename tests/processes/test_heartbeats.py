"""Who stands still is killed and started again; who is slow to start, or not watched for a while, is not."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clickline.processes import restart_policy
from clickline.processes.heartbeats import heartbeat_monitor
from clickline.processes.heartbeats.heartbeat import VARIABLE, Heartbeat
from clickline.processes.heartbeats.heartbeat_monitor import HeartbeatMonitor
from clickline.processes.restart_policy import SERVING, RecentDeaths, RestartPolicy
from clickline.processes.supervisor import Spec, Supervisor
from support.eventually import eventually
from support.supervised_programs import EventTexts, exists

BEATS = """
import sys, time
from pathlib import Path
from clickline.processes.heartbeats.heartbeat import Heartbeat
heartbeat = Heartbeat.inherited()
print("up", flush=True)
while len(sys.argv) > 2 and not Path(sys.argv[2]).exists():
    time.sleep(0.02)
while not Path(sys.argv[1]).exists():
    heartbeat.beat()
    time.sleep(0.02)
time.sleep(600)
"""
"""Stands still once the file that is named first is there, and starts only when the second is."""
LIMIT = 1.5


def watched(directory: Path, rank: int = 0, *, start: Path | None = None, replicas: str = "") -> Spec:
    still = directory / f"still.{rank}"
    return Spec(
        role="cube",
        rank=rank,
        argv=[sys.executable, "-c", BEATS, str(still), *([] if start is None else [str(start)])],
        env={},
        log=directory / f"cube.{rank}.log",
        policy=SERVING,
        stall_after=LIMIT,
        replicas=replicas,
    )


class Watched:
    """A supervisor over some, and what it tells."""

    def __init__(self, specs: list[Spec]) -> None:
        self.events = EventTexts()
        self.supervisor = Supervisor(specs, restarts=None, on_event=self.events.append, grace=2)

    def state(self, rank: int = 0) -> dict[str, object]:
        return self.supervisor.states()[rank]

    def pid(self, rank: int = 0) -> int:
        pid = self.state(rank)["pid"]
        assert isinstance(pid, int)
        return pid

    def well(self, rank: int) -> bool:
        return self.supervisor._processes[rank].well

    def stalled(self, rank: int) -> bool:
        heartbeat = self.supervisor._processes[rank].heartbeat
        return heartbeat is not None and heartbeat.stalled

    def silent(self, rank: int) -> float:
        heartbeat = self.supervisor._processes[rank].heartbeat
        return 0.0 if heartbeat is None else heartbeat.silent

    def until(self, condition: Callable[[], object]) -> None:
        eventually(condition, doing=self.supervisor.poll, seconds=60)

    def all_well(self) -> bool:
        return all(self.well(rank) for rank in range(len(self.supervisor.states())))


@pytest.fixture
def watch() -> Iterator[Callable[..., Watched]]:
    made: list[Watched] = []

    def start(*specs: Spec) -> Watched:
        made.append(Watched(list(specs)))
        made[-1].supervisor.start()
        return made[-1]

    yield start
    for each in made:
        each.supervisor.stop()


def test_one_that_is_stopped_is_killed_and_started_again(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    one = watch(watched(tmp_path))
    one.until(one.all_well)
    stopped = one.pid()
    os.kill(stopped, signal.SIGSTOP)
    one.until(lambda: one.state()["restarts"] == 1)
    one.until(one.all_well)
    assert not exists(stopped)
    killed, died = one.events[:2]
    assert re.fullmatch(r"cube\.0 has stood still for \d+ s and is killed", killed)
    assert re.fullmatch(r"cube\.0 died, stood still for \d+ s and was killed; it is started again in 0\.2 s", died)


def test_one_whose_loop_hangs_is_started_again(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    one = watch(watched(tmp_path))
    one.until(one.all_well)
    (tmp_path / "still.0").touch()
    one.until(lambda: one.state()["restarts"] == 1)
    assert "stood still" in str(one.state()["reason"])


def test_one_that_is_slow_to_start_is_left_alone(tmp_path: Path, watch: Callable[..., Watched]) -> None:
    go = tmp_path / "go"
    one = watch(watched(tmp_path, start=go))
    one.until(lambda: one.silent(0) > LIMIT)  # which would be too long once it has beaten
    assert not one.stalled(0)
    go.touch()
    one.until(one.all_well)
    assert one.state()["restarts"] == 0


def test_one_that_does_nothing_at_all_before_its_first_beat_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used = 1000.0, 5
    monkeypatch.setattr(heartbeat_monitor.time, "monotonic", lambda: now)
    monkeypatch.setattr(heartbeat_monitor, "_processor_time", lambda _pid: used)
    monitor = HeartbeatMonitor(stall_after=10.0)
    for _ in range(500):
        now, used = now + 1.0, used + 1
        monitor.look(1)
        assert not monitor.stalled
    for _ in range(60):
        assert not monitor.stalled
        now += 1.0
        monitor.look(1)
    assert monitor.stalled


def test_time_that_nobody_watched_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor that was stopped, or a machine that slept, finds every heartbeat old when it goes on."""
    now = 1000.0
    monkeypatch.setattr(heartbeat_monitor.time, "monotonic", lambda: now)
    monitor = HeartbeatMonitor(stall_after=10.0)
    monkeypatch.setenv(VARIABLE, str(monitor.descriptor))
    heartbeat = Heartbeat.inherited()
    heartbeat.beat()
    monitor.look(os.getpid())
    now += 3600.0
    monitor.look(os.getpid())
    assert (monitor.stalled, monitor.silent) == (False, 1.0)
    for _ in range(9):
        now += 1.0
        monitor.look(os.getpid())
    assert monitor.stalled
    heartbeat.beat()
    monitor.look(os.getpid())
    assert not monitor.stalled


def test_a_number_that_means_something_else_is_no_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "precious").open("w+b") as file:
        file.write(b"x" * 100)
        file.flush()
        for text in (str(file.fileno()), "99999", "-1", "x", ""):
            monkeypatch.setenv(VARIABLE, text)
            heartbeat = Heartbeat.inherited()
            assert not heartbeat.watched
            heartbeat.beat()
        assert (tmp_path / "precious").read_bytes() == b"x" * 100
        file.seek(0)  # still open


def test_two_replicas_that_stand_still_are_restarted_one_after_the_other(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    both = watch(*(watched(tmp_path, rank, replicas="shard 0") for rank in range(2)))
    both.until(both.all_well)
    for rank in range(2):
        os.kill(both.pid(rank), signal.SIGSTOP)
    both.until(lambda: all(both.state(rank)["restarts"] == 1 for rank in range(2)))
    both.until(both.all_well)
    kinds = [event.partition(" ")[2].partition(" ")[0] for event in both.events]
    names = [event.partition(" ")[0] for event in both.events]
    assert kinds == ["has", "died,", "is", "has", "died,", "is"]  # the first is back before the second is killed
    assert len(set(names[:3])) == len(set(names[3:])) == 1


def test_a_replica_that_stands_still_is_kept_until_the_other_is_back(
    tmp_path: Path, watch: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(HeartbeatMonitor, "long_stalled", False)
    go = tmp_path / "go"
    go.touch()
    both = watch(*(watched(tmp_path, rank, start=go, replicas="shard 0") for rank in range(2)))
    both.until(both.all_well)
    go.unlink()
    os.kill(both.pid(1), signal.SIGKILL)
    both.until(lambda: both.state(1)["restarts"] == 1)
    stopped = both.pid(0)
    os.kill(stopped, signal.SIGSTOP)
    both.until(lambda: both.stalled(0))
    both.supervisor.poll()
    assert (both.pid(0), both.well(1)) == (stopped, False)
    go.touch()
    both.until(lambda: both.state(0)["restarts"] == 1)
    both.until(both.all_well)
    assert both.state(1)["restarts"] == 1


def test_a_replica_does_not_wait_for_ever_for_one_that_does_not_come_back(
    tmp_path: Path, watch: Callable[..., Watched]
) -> None:
    go = tmp_path / "go"
    go.touch()
    both = watch(*(watched(tmp_path, rank, start=go, replicas="shard 0") for rank in range(2)))
    both.until(both.all_well)
    go.unlink()
    os.kill(both.pid(1), signal.SIGKILL)
    os.kill(both.pid(0), signal.SIGSTOP)
    both.until(lambda: both.state(0)["restarts"] == 1)
    (seconds,) = re.findall(r"cube\.0 has stood still for (\d+) s", "\n".join(both.events))
    assert int(seconds) >= 4 * LIMIT
    assert not both.well(1)


def test_deaths_count_within_a_window_and_are_forgotten_after_a_while_of_running_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(restart_policy.time, "monotonic", lambda: now)
    deaths = RecentDeaths(RestartPolicy(restarts=3, window=60.0, well_after=30.0, longest_pause=1.0))
    pauses = []
    for _ in range(4):
        deaths.died()
        pauses.append(deaths.pause)
        now += 1.0
        deaths.started()
    assert pauses == [0.2, 0.4, 0.8, 1.0]
    assert not deaths.may_start_again
    now += 29.0
    assert deaths.look(running=True) == 4
    now += 1.0
    assert deaths.look(running=True) == 0  # it has run for 30 s
    deaths.died()
    assert (deaths.count, deaths.pause, deaths.may_start_again) == (1, 0.2, True)
    for _ in range(1000):  # dies every 25 s: it is never well for long, and yet never at its end
        now += 25.0
        deaths.died()
        deaths.started()
    assert (deaths.count, deaths.may_start_again) == (3, True)


def test_what_serves_is_started_again_for_ever_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(restart_policy.time, "monotonic", lambda: now)
    deaths = RecentDeaths(SERVING)
    for _ in range(5000):
        deaths.died()
        assert deaths.may_start_again
        assert deaths.pause <= 2.0
        now += deaths.pause
        deaths.started()
