"""Runs without a launcher's logs write their own, where `clickline logs` finds it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.errors import DataError
from clickline.launch.local.training_run import train_job
from clickline.launch.run_log import run_log
from clickline.processes.logs import stamp_of
from support.processes import run, small_settings, write_job


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("strategy", "cluster", "logs"),
    [("single", {}, 1), ("collective", {"trainers": 2, "threads": 1}, 2)],
    ids=["single", "collective"],
)
@pytest.mark.parametrize("shown", ["text", "json"])
def test_every_line_that_a_person_sees_is_in_the_log(
    strategy: str, cluster: dict[str, int], logs: int, shown: str, criteo: dict[str, str], tmp_path: Path
) -> None:
    settings = small_settings(criteo, tmp_path) | {"strategy": strategy, "cluster": cluster}
    settings.pop("threads")
    done = run("train", write_job(tmp_path / "job.yaml", settings), *(["--json"] if shown == "json" else []))
    assert done.returncode == 0, done.stdout + done.stderr
    directory = tmp_path / "runs" / "small"
    assert len(list((directory / "logs").iterdir())) == logs
    told = run("logs", "trainer.0", "--run", directory, "-n", "1000")
    assert told.returncode == 0, told.stderr
    lines = [line for line in told.stdout.splitlines() if stamp_of(line.encode())]
    assert all(" INFO trainer.0 " in line or " INFO launcher " in line for line in lines)
    assert any("epoch 1/1" in line for line in lines)
    assert any("auc" in line and "step" in line for line in lines)
    assert any("test: " in line for line in lines)
    assert "{" not in told.stdout


def test_warnings_are_in_the_log_and_go_where_they_went(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with run_log(tmp_path, rank=0, watcher=None) as logged:
        logged.say("one line")
        logging.getLogger("clickline.train").warning("beware")
    logging.getLogger("clickline.train").warning("later")
    text = (tmp_path / "logs" / "trainer.0.log").read_text(encoding="utf-8")
    words = [line.split(" ", 1)[1] for line in text.splitlines()]
    assert words == ["INFO trainer.0 one line", "WARNING trainer.0 beware", "INFO trainer.0 the run has finished"]
    assert [record.message for record in caplog.records] == ["beware", "later"]


def test_a_program_that_wants_lines_of_training_has_each_once(small_job: Job, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="clickline.train")
    result = train_job(small_job)
    text = (result.directory / "logs" / "trainer.0.log").read_text(encoding="utf-8")
    assert text.count("epoch 1/1") == caplog.text.count("epoch 1/1") == 1


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (DataError("no rows"), "ERROR trainer.0 DataError: no rows"),
        (KeyboardInterrupt(), "WARNING trainer.0 interrupted"),
        (ZeroDivisionError("a bug"), "ERROR trainer.0 ZeroDivisionError: a bug"),
    ],
)
def test_the_log_says_how_a_run_ended(error: BaseException, line: str, tmp_path: Path) -> None:
    with pytest.raises(type(error)), run_log(tmp_path, rank=0, watcher=None) as logged:
        logged.say("begun")
        raise error
    text = (tmp_path / "logs" / "trainer.0.log").read_text(encoding="utf-8")
    assert line in text
    assert ("Traceback" in text) == isinstance(error, ZeroDivisionError)


def test_a_log_that_cannot_be_written_does_not_end_a_run(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with run_log(tmp_path, rank=0, watcher=None) as logged:
        logged.say("one line")
    assert (tmp_path / "logs").read_text() == "in the way"


def test_a_run_that_is_refused_its_directory_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(DataError), run_log(tmp_path, rank=0, watcher=None):
        raise DataError("refused")
    assert list(tmp_path.iterdir()) == []
