"""job.sh and config.ini: what is written is read again, by a shell too; what others have written is understood."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clickline.compat.paddlerec.submission.config_ini import ConfigIni, read_config_ini
from clickline.compat.paddlerec.submission.job_script import job_script_text, read_job_script
from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
from clickline.errors import JobError

BY_HAND = r"""#!/bin/bash
# a job of somebody's
job_name=ctr_${USER_SUFFIX:-a}
export group_name="my group"
start_cmd="python -m paddlerec.run -m config.yaml"
ak=planted-1
sk=planted-2

paddlecloud job --ak ${ak} --sk ${sk} \
        train --job-name ${job_name} \
        --group-name "${group_name}" \
        --job-conf config.ini \
        --start-cmd "${start_cmd}" \
        --files ./*.py config.yaml,reader.txt \
        --job-version paddle-fluid-v1.7.1 \
        --mpi-nodes=3 \
        --mpi-wall-time 300:00:00 \
        --json
"""


def test_what_is_written_is_read_and_a_shell_reads_the_same(tmp_path: Path) -> None:
    options = SubmitOptions(
        on="ssh",
        job_name='a "quoted" $name',
        group_name="back\\slash `and` more",
        start_cmd="python -m paddlerec.run -m ./config.yaml",
        nodes=2,
        hosts="hostfile",
        paddle_overrides=("runner.epochs=2",),
        overrides=("cluster.root=/a b", "seed=3"),
    )
    file = tmp_path / "job.sh"
    program = tmp_path / "program"
    program.write_text('#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$word"; done\n')
    program.chmod(0o755)
    text = job_script_text(options).replace("clickline=", f"clickline={program} #", 1)
    file.write_text(text)
    given = subprocess.run(["sh", str(file), "--dry-run"], capture_output=True, text=True, check=True).stdout
    assert given.splitlines() == [
        *("-m", "clickline", "submit", ".", "--on", "ssh", "--job-name", 'a "quoted" $name'),
        *("--group-name", "back\\slash `and` more", "--start-cmd", options.start_cmd, "--nodes", "2"),
        *("--hosts", "hostfile", "-o", "runner.epochs=2", "--set", "cluster.root=/a b", "--set", "seed=3", "--dry-run"),
    ]
    plain = SubmitOptions(on="mpi", job_name="ctr", start_cmd=options.start_cmd, nodes=4)
    file.write_text(job_script_text(plain))
    script = read_job_script(file)
    assert script.generated
    assert script.options == plain


def test_a_script_for_paddleclouds_client_is_understood(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(BY_HAND)
    script = read_job_script(file)
    assert not script.generated
    assert script.options == SubmitOptions(
        on="mpi",
        job_name="ctr_a",
        group_name="my group",
        start_cmd="python -m paddlerec.run -m config.yaml",
        nodes=3,
    )
    assert script.options.files == ("./*.py", "config.yaml,reader.txt")
    assert "planted" not in repr(script)


def test_a_script_is_never_executed_and_what_only_a_shell_knows_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.sh"
    file.write_text(f'touch {tmp_path}/executed\npaddlecloud job train --start-cmd "$(cat {tmp_path}/cmd)"\n')
    with pytest.raises(JobError, match=r"job\.sh, line 2: --start-cmd is computed by the shell"):
        read_job_script(file)
    file.write_text("echo nothing\n")
    with pytest.raises(JobError, match="no command in it submits a job"):
        read_job_script(file)
    file.write_text("paddlecloud job train --start-cmd x --mpi-nodes many\n")
    with pytest.raises(JobError, match="--mpi-nodes is 'many', a whole number was expected"):
        read_job_script(file)
    assert not (tmp_path / "executed").exists()


def test_config_ini_is_read_as_it_was_written_without_credentials(tmp_path: Path) -> None:
    written = ConfigIni(
        {"fs_name": "webhdfs://a:1", "train_data_path": "/b c"}, {"CPU_NUM": "4", "X": "it's"}, {"ak": ""}
    )
    file = tmp_path / "config.ini"
    file.write_text(written.text())
    assert read_config_ini(file) == ConfigIni(written.platform, written.environment, {})
    assert written.url("train_data_path") == "webhdfs://a:1/b c"
    concealed = ConfigIni({}, {}, {"fs_ugi": "user,planted"})
    assert "planted" not in concealed.text() + repr(concealed)


def test_a_config_ini_by_hand_may_have_sections_quotes_and_comments(tmp_path: Path) -> None:
    file = tmp_path / "config.ini"
    file.write_text(
        '[job]\n# a comment\nexport PADDLE_PADDLEREC_ROLE=WORKER\nfs_name="hdfs://x" # there\nfs_ugi=u,planted\n'
    )
    config = read_config_ini(file)
    assert (config.platform, config.environment) == ({"fs_name": "hdfs://x"}, {"PADDLE_PADDLEREC_ROLE": "WORKER"})
    file.write_text("fs_ugi: u,planted\n")
    with pytest.raises(JobError, match="line 1: expected NAME=VALUE") as refused:
        read_config_ini(file)
    assert "planted" not in str(refused.value)
