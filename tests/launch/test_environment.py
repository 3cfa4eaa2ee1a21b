"""Which process this is, where the others are: from our variables and from those of the older stack."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

import clickline
from clickline.compat.paddle_environment import communicator_flags
from clickline.compat.paddle_environment.communicator_flags import paddle_flags
from clickline.config import Job
from clickline.config.loading.reader import read_job
from clickline.errors import JobError
from clickline.launch import variables
from clickline.launch.environment import read_role, torch_environment
from clickline.launch.kubernetes.plain.plain_settings import read_settings
from clickline.ps.process_role import ProcessRole
from clickline.train.monitoring.metrics_place import metrics_place

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
TOKEN = {"CLICKLINE_TOKEN": "0123456789abcdef"}
OURS = {
    **TOKEN,
    "CLICKLINE_ROLE": "pserver",
    "CLICKLINE_RANK": "1",
    "CLICKLINE_PSERVERS": "tcp:10.0.0.1:6174, tcp:[fd00::2]:6174",
    "CLICKLINE_TRAINERS": "3",
    "CLICKLINE_COORDINATOR": "tcp:10.0.0.9:7000",
    "CLICKLINE_DIRECTORY": "/runs/a",
    "CLICKLINE_NODE": "2",
    "CLICKLINE_THREADS": "4",
}
# What a controller writes into the pods of a job with two servers and two workers, by address.
OPERATOR = {
    **TOKEN,
    "PADDLE_PSERVERS_IP_PORT_LIST": "10.1.0.1:36000,10.1.0.2:36000",
    "PADDLE_TRAINER_ENDPOINTS": "10.1.0.3:36000,10.1.0.4:36000",
    "PADDLE_TRAINERS": "10.1.0.3,10.1.0.4",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_PORT": "36000",
    "TRAINER_PORTS_NUM": "20",
    "PADDLE_WITH_GLOO": "1",
    "PADDLE_GLOO_RENDEZVOUS": "3",
}
# What a start script exports after it asked the cluster for pods: ports count up from PADDLE_PORT.
SCRIPT = {
    **TOKEN,
    "PADDLE_TRAINING_ROLE": "PSERVER",
    "TRAINING_ROLE": "PSERVER",
    "PADDLE_PSERVERS": "10.2.0.1:30236,10.2.0.1:30237",
    "PADDLE_PSERVERS_NUM": "2",
    "PADDLE_TRAINERS_NUM": "2",
    "PADDLE_TRAINER_IPS": "10.2.0.2,10.2.0.3",
    "PADDLE_PORT": "30236",
    "POD_IP": "10.2.0.1",
}


def test_our_own_variables() -> None:
    place = read_role("pserver", environ=OURS)
    assert place == ProcessRole(
        role="pserver",
        rank=1,
        pservers=["tcp:10.0.0.1:6174", "tcp:[fd00::2]:6174"],
        trainers=3,
        coordinator="tcp:10.0.0.9:7000",
        token=b"0123456789abcdef",
        bind="tcp:[fd00::2]:6174",
        directory=Path("/runs/a"),
        node=2,
        threads=4,
        hosts_coordinator=False,
    )
    assert place.name == "pserver.1"
    assert place.overrides == ["cluster.pservers=2", "cluster.trainers=3"]


def test_the_token_is_not_shown() -> None:
    assert "0123456789abcdef" not in repr(read_role(environ=OURS))


def test_pods_of_the_operator_run_as_they_are() -> None:
    server = read_role(environ={**OPERATOR, "TRAINING_ROLE": "PSERVER", "PADDLE_TRAINER_ID": "1", "POD_IP": "10.1.0.2"})
    assert (server.name, server.bind, server.trainers) == ("pserver.1", "tcp:10.1.0.2:36000", 2)
    assert (server.coordinator, server.hosts_coordinator) == ("tcp:10.1.0.1:37000", False)
    trainer = read_role(
        environ={**OPERATOR, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0", "POD_IP": "10.1.0.3"}
    )
    assert (trainer.name, trainer.bind) == ("trainer.0", "")
    assert trainer.pservers == ["tcp:10.1.0.1:36000", "tcp:10.1.0.2:36000"]


def test_pods_behind_services_are_found_by_name_and_listen_on_their_own() -> None:
    listed = {"PADDLE_PSERVERS_IP_PORT_LIST": "ctr-ps-0:36000,ctr-ps-1:36000", "POD_IP": "ctr-ps-1"}
    place = read_role("pserver", environ={**TOKEN, **listed, "PADDLE_PORT": "36000"})
    assert (place.rank, place.bind) == (1, "tcp:ctr-ps-1:36000")


@pytest.mark.parametrize("rank", [0, 1])
def test_pods_of_the_start_script_on_one_host(rank: int) -> None:
    place = read_role(environ={**SCRIPT, "PADDLE_PSERVER_ID": str(rank)})
    assert (place.rank, place.bind) == (rank, f"tcp:10.2.0.1:{30236 + rank}")


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ({"PADDLE_TRAINER_ID": "5"}, 5),
        ({"PADDLE_CURRENT_ENDPOINT": "10.1.0.4:36000"}, 1),
        ({"PADDLE_TRAINER_IPS": "10.1.0.3,10.1.0.4", "POD_IP": "10.1.0.4"}, 1),
        ({"PADDLE_TRAINERS_NUM": "1"}, 0),
        ({"CLICKLINE_RANK": "2", "PADDLE_TRAINER_ID": "5"}, 2),
    ],
)
def test_a_trainer_finds_its_rank(said: dict[str, str], rank: int) -> None:
    assert read_role("trainer", environ={**OPERATOR, **said}).rank == rank


@pytest.mark.parametrize(
    ("said", "rank"),
    [
        ({"PADDLE_PSERVER_ID": "1"}, 1),
        ({"POD_IP": "10.1.0.2"}, 1),
        ({"PADDLE_CURRENT_IP": "10.1.0.2"}, 1),
        ({"POD_IP": "10.1.0.2", "PADDLE_PORT": "1"}, 1),
        ({"PADDLE_CURRENT_ENDPOINT": "10.1.0.2:36000"}, 1),
        ({"PADDLE_PSERVERS_IP_PORT_LIST": "ps:1"}, 0),
    ],
)
def test_a_pserver_finds_its_rank(said: dict[str, str], rank: int) -> None:
    assert read_role("pserver", environ={**OPERATOR, **said}).rank == rank


@pytest.mark.parametrize(
    ("said", "trainers"),
    [
        ({"PADDLE_TRAINERS": "10.1.0.3,10.1.0.4,10.1.0.5"}, 3),
        ({"PADDLE_TRAINERS": "3"}, 3),
        ({"PADDLE_TRAINER_IPS": "10.1.0.3"}, 1),
        ({"PADDLE_TRAINERS_NUM": "7", "PADDLE_TRAINERS": "3"}, 7),
        ({}, 0),
    ],
)
def test_the_number_of_trainers(said: dict[str, str], trainers: int) -> None:
    assert read_role("trainer", environ={**TOKEN, "CLICKLINE_RANK": "0", "PADDLE_PSERVERS": "a", **said}).trainers == (
        trainers
    )


def test_hosts_alone_get_the_port_and_a_host_named_again_the_next() -> None:
    place = read_role("trainer", environ={**TOKEN, "CLICKLINE_RANK": "0", "PADDLE_PSERVERS": "a,b,a"})
    assert place.pservers == ["tcp:a:6174", "tcp:b:6174", "tcp:a:6175"]


def test_without_a_coordinator_pserver_0_is_it() -> None:
    environ = {**TOKEN, "CLICKLINE_PSERVERS": "tcp:a:6174,tcp:b:6174", "CLICKLINE_BIND": "10.9.9.9"}
    first, second = (read_role("pserver", environ={**environ, "CLICKLINE_RANK": rank}) for rank in "01")
    assert (first.hosts_coordinator, second.hosts_coordinator) == (True, False)
    assert first.coordinator == second.coordinator == "tcp:a:7174"
    assert (first.bind, first.coordinator_bind) == ("tcp:10.9.9.9:6174", "tcp:10.9.9.9:7174")


def test_sockets() -> None:
    place = read_role("pserver", environ={**TOKEN, "CLICKLINE_PSERVERS": "unix:/s/ps0"})
    assert (place.bind, place.coordinator, place.coordinator_bind) == (
        "unix:/s/ps0",
        "unix:/s/ps0.coordinator",
        "unix:/s/ps0.coordinator",
    )


def test_a_coordinator_of_its_own() -> None:
    place = read_role("coordinator", environ={**OURS, "CLICKLINE_ROLE": "", "CLICKLINE_BIND": "tcp:10.9.9.9:7001"})
    assert (place.rank, place.bind, place.coordinator_bind) == (0, "tcp:10.9.9.9:7001", "tcp:10.9.9.9:7001")


def test_the_job_fills_in_what_the_environment_does_not_say() -> None:
    job = Job.model_validate({"name": "a", "output": "/o", "cluster": {"trainers": 4}})
    place = read_role("pserver", environ={**TOKEN, "CLICKLINE_PSERVERS": "tcp:a:1"}).within(job)
    assert (place.directory, place.trainers) == (Path("/o/a"), 4)
    assert read_role("pserver", environ=OURS).within(job).directory == Path("/runs/a")


def test_the_token_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("fedcba9876543210\n", encoding="utf-8")
    environ = {"CLICKLINE_PSERVERS": "tcp:a:1", "CLICKLINE_TOKEN_FILE": str(tmp_path / "token")}
    assert read_role("pserver", environ=environ).token == b"fedcba9876543210"


def test_torch_learns_its_place_from_the_older_names() -> None:
    assert torch_environment({**OPERATOR, "PADDLE_TRAINER_ID": "1"}) == {
        "RANK": "1",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "10.1.0.3",
        "MASTER_PORT": "36000",
    }
    assert torch_environment({**OPERATOR, "PADDLE_TRAINER_ID": "1", "RANK": "0"}) == {}
    assert torch_environment({}) == {}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (
            {"CLICKLINE_ROLE": "trainer"},
            "CLICKLINE_ROLE says that this is a trainer, the command line that it is a pserver",
        ),
        (
            {"TRAINING_ROLE": "HETER", "CLICKLINE_ROLE": ""},
            "TRAINING_ROLE: 'HETER' is not a role; known roles: pserver",
        ),
        ({"CLICKLINE_RANK": "2"}, "this is pserver 2, but only 2 are named"),
        ({"CLICKLINE_RANK": "one"}, "CLICKLINE_RANK: 'one' must be a whole number"),
        ({"CLICKLINE_RANK": ""}, "nothing says which pserver this is: set CLICKLINE_RANK"),
        ({"CLICKLINE_PSERVERS": ""}, "no parameter servers are named: set CLICKLINE_PSERVERS"),
        ({"CLICKLINE_PSERVERS": "tcp:a"}, "CLICKLINE_PSERVERS: 'tcp:a' lacks a port"),
        ({"CLICKLINE_PSERVERS": "tcp::1"}, "CLICKLINE_PSERVERS: 'tcp::1' lacks a host"),
        ({"CLICKLINE_PSERVERS": "tcp:a:0"}, "CLICKLINE_PSERVERS: port 0 is not between 1 and 65535"),
        ({"CLICKLINE_PSERVERS": "tcp:a:http"}, "CLICKLINE_PSERVERS: the port of 'a:http' is not a number"),
        ({"CLICKLINE_PSERVERS": "tcp:[::1:5"}, "opens a bracket and does not close it"),
        ({"CLICKLINE_PSERVERS": "unix:ps0"}, "CLICKLINE_PSERVERS: 'unix:ps0' must have an absolute path"),
        ({"CLICKLINE_PSERVERS": "tcp:a:1,tcp:a:1"}, "CLICKLINE_PSERVERS names tcp:a:1 twice"),
        (
            {"CLICKLINE_PSERVERS": "", "PADDLE_PSERVERS": "a,b", "PADDLE_PSERVERS_NUM": "3"},
            "PADDLE_PSERVERS names 2 servers, PADDLE_PSERVERS_NUM says 3",
        ),
        ({"CLICKLINE_NODE": "-1"}, "CLICKLINE_NODE: '-1' must be a whole number"),
        ({"CLICKLINE_TOKEN": ""}, "CLICKLINE_TOKEN is not set"),
        ({"CLICKLINE_TOKEN": "short"}, "CLICKLINE_TOKEN has fewer than 16 characters"),
        (
            {"CLICKLINE_TOKEN": "", "CLICKLINE_TOKEN_FILE": "/no/file"},
            "CLICKLINE_TOKEN_FILE: '/no/file' cannot be read",
        ),
        (
            {"CLICKLINE_COORDINATOR": "", "CLICKLINE_PSERVERS": "tcp:a:65000,tcp:b:1"},
            "pserver 0's port 65000 + 1000: port 66000 is not between",
        ),
    ],
)
def test_mistakes_name_the_variable(said: dict[str, str], message: str) -> None:
    with pytest.raises(JobError, match=re.escape(message)) as failed:
        read_role("pserver", environ={**OURS, **said})
    assert "short" not in str(failed.value)


def test_a_coordinator_of_its_own_must_be_named_to_all() -> None:
    with pytest.raises(JobError, match="set CLICKLINE_COORDINATOR"):
        read_role("coordinator", environ={**TOKEN, "CLICKLINE_PSERVERS": "tcp:a:1"})


def test_no_role_at_all() -> None:
    with pytest.raises(JobError, match="names no role: set CLICKLINE_ROLE"):
        read_role(environ=TOKEN)


def test_flags_become_overrides_that_the_job_accepts() -> None:
    found = paddle_flags(
        {
            "FLAGS_communicator_max_merge_var_num": "20",
            "FLAGS_communicator_send_queue_size": "12",
            "FLAGS_communicator_min_send_grad_num_before_recv": "3",
            "geo_sgd_need_push_nums": "400",
            "FLAGS_rpc_deadline": "180000",
            "FLAGS_worker_update_interval_secs": "900",
        }
    )
    cluster = read_job(None, overrides=found.overrides).job.cluster
    agree = cluster.agree
    assert (agree.merge, agree.send_queue, agree.dense_every, agree.geo_steps) == (20, 12, 3, 400)
    assert (cluster.deadline, cluster.evict_after) == (180, 900)
    assert (found.dead, found.report()) == ({}, "")


@pytest.mark.parametrize("name", communicator_flags.LIVE)
def test_every_live_flag_sets_a_key_that_exists(name: str) -> None:
    (override,) = paddle_flags({name: "17"}).overrides
    read_job(None, overrides=[override])


def test_dead_flags_are_reported_with_the_reason() -> None:
    found = paddle_flags({"FLAGS_communicator_fake_rpc": "0", "FLAGS_rpc_new": "1", "FLAGS_selected_gpus": "0"})
    assert found.overrides == []
    assert found.report().splitlines() == [
        "FLAGS_communicator_fake_rpc has no effect: was never read by PaddlePaddle either",
        "FLAGS_rpc_new has no effect: it is not known here",
    ]


def test_a_flag_that_is_no_number_is_named() -> None:
    with pytest.raises(JobError, match="FLAGS_rpc_deadline: '3 h' must be a whole number"):
        paddle_flags({"FLAGS_rpc_deadline": "3 h"})


class Listening(Mapping[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values_, self.asked = values, set[str]()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self.values_[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


def test_the_table_lists_what_the_code_reads_and_nothing_else() -> None:
    asked: set[str] = set()
    for role in ("pserver", "trainer", "coordinator"):
        for values in ({}, OURS | {"CLICKLINE_ROLE": ""}, {**TOKEN, "PADDLE_PSERVERS": "a"}, OPERATOR, TOKEN):
            environ = Listening(values)
            with suppress(JobError):
                read_role(role, environ=environ)
            asked |= environ.asked
    environ = Listening({})
    metrics_place(Job(), role="trainer", rank=0, environ=environ)
    assert asked | environ.asked == set(variables.OURS) | set(variables.PADDLE)
    environ = Listening({})
    with suppress(JobError):
        read_settings(environ, role="pserver")
    given = {"PADDLE_INIT_PSERVERS", "PADDLE_INIT_TRAINER_ID"}
    assert environ.asked - {"HOSTNAME"} - set(variables.PADDLE) == set(variables.PLAIN_YAML) - given
    environ = Listening({})
    paddle_flags(environ)
    assert environ.asked == set(communicator_flags.LIVE) | set(communicator_flags.DEAD)
    assert not set(communicator_flags.LIVE) & set(communicator_flags.DEAD)
    assert not set(variables.WITHOUT_EFFECT) & (asked | environ.asked)


CONTRACT = """
TRAINING_ROLE PADDLE_TRAINING_ROLE PADDLE_TRAINER_ID PADDLE_PSERVER_ID PADDLE_TRAINERS_NUM PADDLE_PSERVERS_NUM
PADDLE_PSERVERS_IP_PORT_LIST PADDLE_PSERVERS PADDLE_TRAINER_ENDPOINTS PADDLE_TRAINERS PADDLE_CURRENT_ENDPOINT
PADDLE_TRAINER_IPS PADDLE_PORT TRAINER_PORTS_NUM POD_IP PADDLE_WITH_GLOO PADDLE_GLOO_RENDEZVOUS
PADDLE_GLOO_HTTP_ENDPOINT PADDLE_ELASTIC_JOB_ID PADDLE_ELASTIC_NP PADDLE_ELASTIC_TIMEOUT PADDLE_PADDLEREC_ROLE
PADDLEREC_CLUSTER_TYPE CPU_NUM NUM_THREADS FLAGS_communicator_is_sgd_optimizer FLAGS_communicator_send_queue_size
FLAGS_communicator_max_merge_var_num FLAGS_communicator_min_send_grad_num_before_recv
FLAGS_communicator_max_send_grad_num_before_recv FLAGS_communicator_thread_pool_size FLAGS_communicator_fake_rpc
FLAGS_rpc_deadline FLAGS_rpc_retry_times FLAGS_worker_update_interval_secs HDFS_ADDRESS HDFS_UGI START_DATE_HR
END_DATE_HR DATASET_PATH SPARSE_DIM CUBE_SHARD_NUM FILE_SERVER_SERVICE_HOST FILE_SERVER_SERVICE_PORT PADDLE_JOB_NAME
PADDLE_IS_LOCAL PADDLE_INIT_NICS ENTRY TRAINER_PACKAGE GLOG_v GLOG_logtostderr POD_NAME NAMESPACE PADDLE_CURRENT_IP"""
"""What trainers of the older stack were told, in every way that it was started."""


@pytest.mark.parametrize("name", CONTRACT.split())
def test_every_older_variable_is_used_or_has_a_reason_not_to_be(name: str) -> None:
    tables = [
        variables.PADDLE,
        variables.PLAIN_YAML,
        communicator_flags.LIVE,
        communicator_flags.DEAD,
        variables.WITHOUT_EFFECT,
    ]
    assert sum(name in table for table in tables) == 1
    assert f"| `{name}` | " in variables.page()


def test_the_reference_is_current() -> None:
    remedy = "run python -m clickline.launch.variables docs/reference"
    assert (REFERENCE / "environment.md").read_text(encoding="utf-8") == variables.page(), remedy


def test_every_variable_that_the_code_reads_is_documented() -> None:
    read = set()
    for file in Path(clickline.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                read |= set(re.findall(r"^CLICKLINE_[A-Z_]+$", node.value))
    assert "CLICKLINE_DEVICE" in read
    documented = variables.OURS | variables.COLLECTIVE | variables.SERVING | variables.JOBS | variables.INTERNAL
    assert read == {name for name in documented if name.startswith("CLICKLINE_")}
    # Ray reads the first itself; the others are PaddleRec's and kubectl's.
    others = {"RAY_ADDRESS", "PADDLE_PADDLEREC_ROLE", "KUBECONFIG"}
    assert documented.keys() - read == others


def test_pserver_0_is_the_coordinator_at_the_port_that_it_is_given() -> None:
    given = {"CLICKLINE_PSERVERS": "tcp:10.0.0.1:36000,tcp:10.0.0.2:36000", "CLICKLINE_TOKEN": "t" * 16}
    here = given | {"CLICKLINE_COORDINATOR_PORT": "36017", "CLICKLINE_RANK": "0"}
    server = read_role("pserver", environ=here)
    assert (server.coordinator, server.hosts_coordinator) == ("tcp:10.0.0.1:36017", True)
    with pytest.raises(JobError, match="CLICKLINE_COORDINATOR_PORT"):
        read_role("pserver", environ=here | {"CLICKLINE_COORDINATOR_PORT": "many"})
