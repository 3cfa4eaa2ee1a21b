"""Ctrl+C and SIGTERM: a run writes a checkpoint, says what it is and how to go on, and ends within its limit."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clickline.train.interrupts import finished_within
from support.eventually import eventually
from support.processes import run, small_settings, start, write_job

CLUSTER = {"pservers": 1, "trainers": 2, "threads": 1, "piece_bytes": 20_000, "heartbeat": 0.2}
WAYS: dict[str, dict[str, Any]] = {
    "single": {},
    "async": {"cluster": CLUSTER},
    "sync": {"cluster": CLUSTER},
    "geo": {"cluster": CLUSTER},
    "collective": {"cluster": {"trainers": 2, "threads": 1}},
}


def endless(criteo: dict[str, str], directory: Path, way: str = "single", **more: Any) -> dict[str, Any]:
    settings = small_settings(criteo, directory) | {"strategy": way, **WAYS[way]}
    settings["train"] = {"batch_size": 50, "log_every": 5, "epochs": 1000}
    settings["checkpoint"] = {"every_epochs": 0}
    return {**settings, **more}


@contextmanager
def training(directory: Path, settings: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    process = start("train", write_job(directory / "job.yaml", settings))
    try:
        yield process, directory / "runs" / "small"
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def status_of(directory: Path) -> dict[str, Any]:
    file = directory / "status.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def after_steps(process: subprocess.Popen[str], directory: Path, steps: int) -> None:
    eventually(lambda: status_of(directory).get("step", 0) >= steps, process=process, what=f"{steps} steps")


def stalled(process: subprocess.Popen[str], directory: Path) -> None:
    """Several statuses in a row, which are written each second, know of no new step."""
    seen: dict[float, int] = {}

    def same() -> bool:
        status = status_of(directory)
        if status.get("step", 0) >= 5:
            seen[status["time"]] = status["step"]
        return len(seen) > 3 and len(set(list(seen.values())[-3:])) == 1

    eventually(same, process=process, what="a run that waits for data")


def pending(pid: int) -> bool:
    """Whether SIGINT has been sent to a process and not arrived there."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    masks = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
    return bool(masks >> (signal.SIGINT - 1) & 1)


def ended(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    return " ".join(errors.splitlines()[-3:])


# All signals take the same turn: each has one process, servers and ranks, but not every strategy with servers.
@pytest.mark.parametrize(
    ("way", "name"),
    [
        ("single", "SIGINT"),
        ("single", "SIGTERM"),
        ("async", "SIGINT"),
        ("async", "SIGTERM"),
        ("sync", "SIGHUP"),
        ("geo", "SIGINT"),
        ("collective", "SIGINT"),
        ("collective", "SIGHUP"),
    ],
)
def test_an_interrupted_run_saves_and_says_how_to_go_on(
    way: str, name: str, criteo: dict[str, str], tmp_path: Path
) -> None:
    with training(tmp_path, endless(criteo, tmp_path, way)) as (process, directory):
        after_steps(process, directory, 12)
        process.send_signal(signal.Signals[name])
        said = ended(process)
    kept = r"(\S+) (?:was written|is the newest checkpoint); nothing is lost"
    found = re.search(rf"interrupted by \w+ after step ([\d,]+); {kept}; to go on: (.*)$", said)
    assert found, said
    step = int(found[1].replace(",", ""))
    assert Path(found[2]).name == f"step-{step:010d}"
    status = status_of(directory)
    assert (status["phase"], status["checkpoint"]["step"]) == ("interrupted", step)
    assert "to go on" in status["why"]
    shown = run("status", directory)
    assert "KeyboardInterrupt" not in shown.stdout
    assert shown.returncode == 1

    program, *command = shlex.split(found[3])
    assert (program, command[-1]) == ("clickline", "--resume")
    went_on = run(*command, "--set", f"train.max_steps={step + 8}", "--json")
    assert went_on.returncode == 0, went_on.stderr
    result = json.loads(went_on.stdout)
    assert result["steps"] >= step + 8
    if way == "single":
        whole = endless(criteo, tmp_path, name="whole") | {"name": "whole"}
        whole["train"]["max_steps"] = step + 8
        straight = run("train", write_job(tmp_path / "whole.yaml", whole), "--json")
        assert json.loads(straight.stdout)["test"] == result["test"]


def blocked_job(criteo: dict[str, str], directory: Path, **checkpoint: Any) -> dict[str, Any]:
    """Its reader gives many rows and then never anything more."""
    (directory / "waiting.py").write_text(
        "import threading\nfrom clickline import Reader\n\n\n"
        "class Waiting(Reader):\n"
        "    def rows(self, stream, path):\n"
        "        for number in range(60_000):\n"
        "            yield {'label': number % 2, 'user': str(number % 7)}\n"
        ""
        "        threading.Event().wait()\n",
        encoding="utf-8",
    )
    settings = endless(criteo, directory)
    settings["data"] = {"format": f"{directory}/waiting.py:Waiting", "train": [criteo["train"]], "shuffle_rows": 1}
    settings["features"] = {"slots": ["user"]}
    settings["model"] = {"name": "lr"}
    settings["checkpoint"] = {"every_steps": 5, **checkpoint}
    return settings


def test_a_run_that_waits_for_data_ends_within_its_limit_and_names_what_is_lost(
    criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with training(tmp_path, blocked_job(criteo, tmp_path, interrupt_timeout=0.5)) as (process, directory):
        stalled(process, directory)
        process.send_signal(signal.SIGINT)
        said = ended(process)
    assert "is the newest checkpoint (no step ended within 0.5 s)" in said
    assert re.search(r"nothing is lost|\d+ steps? (is|are) lost", said)
    assert status_of(directory)["phase"] == "interrupted"


def test_a_second_interrupt_ends_a_run_at_once(
    criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with training(tmp_path, blocked_job(criteo, tmp_path, interrupt_timeout=3600)) as (process, directory):
        stalled(process, directory)
        process.send_signal(signal.SIGINT)
        eventually(lambda: not pending(process.pid), process=process, what="the first signal taken")
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            # The system had delivered the first, and Python had not looked yet: then both were one to it.
            process.send_signal(signal.SIGINT)
        assert "Ctrl+C came again" in ended(process)


def test_a_run_that_is_not_to_save_names_what_is_lost(criteo: dict[str, str], tmp_path: Path) -> None:
    settings = endless(criteo, tmp_path, checkpoint={"every_epochs": 0, "interrupt_timeout": 0})
    with training(tmp_path, settings) as (process, directory):
        after_steps(process, directory, 12)
        process.send_signal(signal.SIGINT)
        said = ended(process)
    assert "there is no checkpoint (checkpoint.interrupt_timeout is 0)" in said
    assert re.search(r"\d+ steps are lost; .* --fresh$", said)


def test_an_epoch_that_was_interrupted_in_its_validation_is_validated_when_it_goes_on(
    criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = endless(criteo, tmp_path)
    settings["train"]["epochs"] = 2
    settings["data"]["valid"] = [criteo["test"]]
    whole = run("train", write_job(tmp_path / "whole.yaml", settings | {"name": "whole"}), "--json")
    from clickline.config import Job
    from clickline.train.interrupts import TrainingInterrupted
    from clickline.train.loop import single_process
    from clickline.train.session import train_job

    job = Job.model_validate(settings)
    evaluate = single_process.evaluate

    def interrupted(*args: Any, **named: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return evaluate(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_process, "evaluate", interrupted)
        before = signal.getsignal(signal.SIGTERM)
        with pytest.raises(TrainingInterrupted, match="was written; nothing is lost"):
            train_job(job)
        assert signal.getsignal(signal.SIGTERM) is before, "a program that called it can be ended as before"
    resumed = train_job(job, resume=True)
    assert resumed.to_dict()["valid"] == json.loads(whole.stdout)["valid"]
    lines = [json.loads(line) for line in (tmp_path / "runs/small/metrics.jsonl").read_text().splitlines()]
    assert [line["kind"] for line in lines].count("valid") == 2


def test_work_that_takes_too_long_is_not_waited_for() -> None:
    never = threading.Event()
    try:
        assert "longer than 0.05 s" in finished_within(0.05, never.wait)
    finally:
        never.set()
    assert finished_within(30, lambda: None) == ""
    assert finished_within(30, lambda: int("x")) == "invalid literal for int() with base 10: 'x'"
