"""The variables of a pod of plain YAML: those of every generation are understood, and mistakes are said all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.compat.paddle_environment.communicator_flags import paddle_flags
from clickline.errors import JobError
from clickline.launch.kubernetes.plain.entry_command import package_environment, run_entry
from clickline.launch.kubernetes.plain.peer_discovery import check_servers
from clickline.launch.kubernetes.plain.plain_settings import misspelt, read_settings

FLUID = {
    "PADDLE_JOB_NAME": "fluid-ctr",
    "PADDLE_PSERVERS_NUM": "2",
    "PADDLE_TRAINERS_NUM": "3",
    "PADDLE_PORT": "30236",
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_TRAINING_ROLE": "PSERVER",
    "TOPOLOGY": "",
    "ENTRY": "cd /workspace/ctr && python train.py --is_local 0 --cloud_train 1",
    "POD_IP": "10.0.0.1",
    "POD_NAME": "fluid-ctr-pserver-x1",
    "NAMESPACE": "default",
}
EARLIER = {
    "PADDLE_JOB_NAME": "v2",
    "PSERVERS": "2",
    "TRAINERS": "3",
    "PADDLE_INIT_PORT": "7164",
    "PADDLE_INIT_NUM_GRADIENT_SERVERS": "3",
    "TOPOLOGY": "job.yaml",
    "HOSTNAME": "v2-trainer-x1",
}


def test_the_variables_of_a_fluid_pod() -> None:
    settings = read_settings(FLUID, role=None)
    assert (settings.job, settings.role, settings.pservers, settings.trainers) == ("fluid-ctr", "pserver", 2, 3)
    assert (settings.port, settings.pod_name, settings.entry) == (30236, "fluid-ctr-pserver-x1", FLUID["ENTRY"])


def test_the_variables_of_an_earlier_pod() -> None:
    settings = read_settings(EARLIER, role="trainer")
    assert (settings.job, settings.role, settings.pservers, settings.trainers) == ("v2", "trainer", 2, 3)
    assert (settings.port, settings.pod_name, settings.job_file) == (7164, "v2-trainer-x1", "job.yaml")


def test_a_version_of_the_configuration_is_no_job() -> None:
    settings = read_settings({**EARLIER, "ENTRY": "python train.py"}, role="trainer", job_file="v2")
    assert settings.entry == "python train.py"


def test_a_named_job_is_stronger_than_entry() -> None:
    settings = read_settings(FLUID, role="pserver", job_file="job.yaml")
    assert (settings.entry, settings.job_file) == ("", "job.yaml")


def test_everything_that_is_missing_is_said_at_once_with_what_looks_like_it() -> None:
    with pytest.raises(JobError) as caught:
        read_settings({"PADDLE_JOBNAME": "a", "PADDLE_TRAINER_NUM": "2"}, role=None)
    text = str(caught.value)
    assert "PADDLE_JOB_NAME is not set: the value of the label paddle-job of the job's pods; PADDLE_JOBNAME is" in text
    assert "the number of trainers; PADDLE_TRAINER_NUM is set: did you mean PADDLE_TRAINERS_NUM?" in text
    assert "PADDLE_PSERVERS_NUM or PSERVERS is not set: the number of parameter servers\n" in text
    assert "TRAINING_ROLE or PADDLE_TRAINING_ROLE is not set: PSERVER or TRAINER" in text
    assert "there is nothing to run: set ENTRY" in text


@pytest.mark.parametrize(
    ("variable", "meant"),
    [("TRAINNERS", "TRAINERS"), ("PADDLE_TRAINERS_NUMBER", "PADDLE_TRAINERS_NUM"), ("WORKERS", None)],
)
def test_each_name_of_a_missing_variable_is_compared_with_what_is_set(variable: str, meant: str | None) -> None:
    others = {name: value for name, value in FLUID.items() if name != "PADDLE_TRAINERS_NUM"}
    with pytest.raises(JobError) as caught:
        read_settings({**others, variable: "2"}, role="pserver")
    hint = f"; {variable} is set: did you mean {meant}?" if meant else ""
    assert str(caught.value).splitlines()[1:] == [
        f"  PADDLE_TRAINERS_NUM or TRAINERS is not set: the number of trainers{hint}"
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"TRAINING_ROLE": "SERVER"}, "'SERVER' is not a role; expected is one of PSERVER, TRAINER, WORKER"),
        ({"TRAINING_ROLE": "TRAINER"}, "TRAINING_ROLE says that this is a trainer, and start_pserver"),
        ({"TRAINERS": "4"}, "PADDLE_TRAINERS_NUM is 3 and TRAINERS is 4: they must agree"),
        ({"PADDLE_TRAINERS_NUM": "0"}, "PADDLE_TRAINERS_NUM: 0 is not between 1 and 65536"),
        ({"PADDLE_PSERVERS_NUM": "two"}, "PADDLE_PSERVERS_NUM: 'two' must be a whole number"),
        ({"PADDLE_PORT": "65535"}, "PADDLE_PORT: 65535 is not between 1 and 65533"),
    ],
)
def test_wrong_values_are_refused(changes: dict[str, str], message: str) -> None:
    with pytest.raises(JobError, match=message):
        read_settings({**FLUID, **changes}, role="pserver")


def test_a_variable_that_looks_like_another_is_named() -> None:
    env = {**FLUID, "PADDLE_CURENT_IP": "10.0.0.1", "PADDLE_GLOO_RENDEZVOUS": "3"}
    assert misspelt(env) == [
        "PADDLE_CURENT_IP is set, which means nothing here, and PADDLE_CURRENT_IP is not: did you mean that?"
    ]


def test_our_role_without_servers_is_refused_with_the_command_for_it() -> None:
    settings = read_settings({**FLUID, "PADDLE_PSERVERS_NUM": "0"}, role="pserver", job_file="job.yaml")
    with pytest.raises(JobError, match=r"set ENTRY to 'clickline train job\.yaml'"):
        check_servers(settings)


@pytest.mark.parametrize(
    ("command", "code", "reason"), [("exit 3", 3, "exit code 3"), ("kill -SEGV $$", 139, "SIGSEGV")]
)
def test_the_end_of_entry_is_told_where_kubernetes_looks(tmp_path: Path, command: str, code: int, reason: str) -> None:
    message = tmp_path / "termination-log"
    message.touch()
    assert run_entry(command, {}, message_file=message) == code
    assert reason in message.read_text()


def test_entry_runs_in_the_package_with_the_environment(tmp_path: Path) -> None:
    env = package_environment(str(tmp_path), {"PYTHONPATH": "/other"}) | {"A": "1"}
    assert run_entry('echo "$A $PYTHONPATH" > out', env, directory=str(tmp_path), message_file=tmp_path / "none") == 0
    assert (tmp_path / "out").read_text() == f"1 {tmp_path}:/other\n"
    assert not (tmp_path / "none").exists()


def test_a_deadline_of_hours_is_lowered_and_said() -> None:
    flags = paddle_flags({"FLAGS_rpc_deadline": "36000000"})
    assert flags.overrides == ["cluster.deadline=600"]
    assert flags.report().startswith("FLAGS_rpc_deadline: 36000 s is lowered to 600")
    assert paddle_flags({"FLAGS_rpc_deadline": "180000"}).report() == ""
