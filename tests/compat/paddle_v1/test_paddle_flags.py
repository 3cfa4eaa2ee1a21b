"""Flags of PaddlePaddle v1's paddle.py as keys of a job and options of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.compat.paddle_v1.paddle_flags import LIVE, SPECIAL, WITHOUT_EFFECT, read_paddle_flags
from clickline.config.loading.reader import read_job
from clickline.errors import JobError

# The run.sh of the demo, its paths aside.
RUN_SH = [
    "--dot_period=10",
    "--ports_num_for_sparse=2",
    "--log_period=50",
    "--num_passes=10",
    "--trainer_count=4",
    "--saving_period=1",
    "--local=0",
    "--config=./trainer_config.py",
    "--save_dir=./output",
    "--use_gpu=0",
]


def test_the_flags_of_run_sh_are_keys_of_the_job_or_said_to_have_no_effect(tmp_path: Path) -> None:
    flags = read_paddle_flags([f"--job_dispatch_package={tmp_path}", *RUN_SH, "job.yaml"])
    assert (flags.package, flags.workspace, flags.job, flags.conf) == (tmp_path, "", "job.yaml", None)
    job = read_job(None, overrides=flags.overrides).job
    assert (job.train.epochs, job.train.log_every) == (10, 50)
    assert (job.checkpoint.every_epochs, job.cluster.threads) == (1, 4)
    said = "\n".join(flags.notices)
    for name in ("dot_period", "ports_num_for_sparse", "config", "save_dir"):
        assert f"--{name}" in said
    assert len(flags.notices) == 4


@pytest.mark.parametrize("name", LIVE)
def test_each_flag_that_sets_a_key_sets_it(name: str) -> None:
    arguments = ["job.yaml", "--job_workspace=/demo", f"--{name}=7"]
    loaded = read_job(None, overrides=read_paddle_flags(arguments).overrides)
    assert loaded.origins[LIVE[name]] == "override"


def test_dashes_spaces_and_keys_of_the_job_are_taken_too() -> None:
    ours = ["--job-workspace", "/demo", "--conf", "hosts.yaml", "--num-passes", "3", "--use_gpu=false", "job.yaml"]
    keys = ["--set", "train.batch_size=512", "--model.dropout=0.5", "--async_count=0", "--start_pass=2"]
    flags = read_paddle_flags([*ours, *keys])
    assert (flags.workspace, flags.conf, flags.job, flags.resume) == ("/demo", Path("hosts.yaml"), "job.yaml", True)
    assert flags.overrides == ["train.epochs=3", "train.batch_size=512", "model.dropout=0.5", "strategy=sync"]


def test_a_dataprovider_in_the_package_gets_one_message(tmp_path: Path) -> None:
    (tmp_path / "dataprovider.py").write_text("raise SystemExit('executed')\n")
    (notice,) = read_paddle_flags([f"--job_dispatch_package={tmp_path}", "job.yaml"]).notices
    assert "dataprovider.py is not run" in notice
    assert "`data` and `features`" in notice


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["job.yaml"], "one of --job_dispatch_package=DIR .* and --job_workspace=DIR .* must be given"),
        (["job.yaml", "--job_workspace=/a", "--job_dispatch_package=."], "must be given, not both"),
        (["job.yaml", "--job_dispatch_package=/none/there"], "there is no such directory here"),
        (["--job_workspace=/a"], "no job file is given"),
        (["job.yaml", "other.yaml", "--job_workspace=/a"], "'other.yaml' is one argument too many"),
        (["job.yaml", "--job_workspace=/a", "--num_pases=3"], r"--num_pases: no such flag; did you mean num_passes\?"),
        (["job.yaml", "--job_workspace=/a", "--zzz"], "known flags: num_passes, log_period, .* in all"),
        (["job.yaml", "--job_workspace=/a", "--num_passes=many"], "--num_passes=many: expected a whole number"),
        (["job.yaml", "--job_workspace=/a", "--use_gpu=1"], "--use_gpu=1: must be 0"),
        (["job.yaml", "--job_workspace=/a", "--local"], "--local=1: must be 0"),
        (["job.yaml", "--job_workspace=/a", "--job=test"], "--job=test: must be train"),
        (["job.yaml", "--job_workspace=/a", "--init_model_path=x"], "parameters of v1 do not fit"),
        (["job.yaml", "--job_workspace=/a", "--set", "colour"], "--set colour is not KEY=VALUE"),
    ],
)
def test_what_cannot_be_translated_is_refused_in_words(arguments: list[str], message: str) -> None:
    with pytest.raises(JobError, match=message):
        read_paddle_flags(arguments)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(JobError) as caught:
        read_paddle_flags(["job.yaml", "--job_workspace=/a", "--use_gpu=1", "--colour=red", "--log_period=x"])
    assert len(str(caught.value).splitlines()) == 3


def test_no_flag_has_two_meanings() -> None:
    names = [*LIVE, *SPECIAL, *WITHOUT_EFFECT]
    assert len(names) == len(set(names))
