"""`clickline k8s` in pods of deploy/examples/plain: they find each other by their labels, and train."""

from __future__ import annotations

import json
import secrets
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from clickline.errors import JobError, PeerError
from clickline.launch.kubernetes.cluster_access import find_cluster
from clickline.launch.kubernetes.cluster_client import ClusterClient
from clickline.launch.kubernetes.plain.peer_discovery import PeerDiscovery
from clickline.launch.kubernetes.plain.plain_settings import read_settings
from support.clusters import settings_for
from support.eventually import eventually
from support.kubernetes.api_server import TestCluster
from support.kubernetes.plain_pods import PlainPods
from support.ports import port_range
from support.processes import write_job

_number = iter(range(1000))


@pytest.fixture
def pods(cluster: TestCluster, tmp_path: Path) -> Iterator[PlainPods]:
    """A namespace of its own, with the rights of the example."""
    made = PlainPods(cluster, f"plain-{next(_number)}-{secrets.token_hex(2)}", tmp_path)
    try:
        made.install_rights()
        yield made
    finally:
        made.stop()


def found(pods: PlainPods, name: str, *, timeout: float = 30.0, **changes: str) -> tuple[dict[str, str], list[str]]:
    """What a pod's process would find out, and what it says meanwhile."""
    said: list[str] = []
    env = pods.environment(name, **changes)
    with ClusterClient(find_cluster(env)) as client:
        discovery = PeerDiscovery(client, read_settings(env, role=None), timeout=timeout, say=said.append)
        return discovery.find(), said


def make_all(pods: PlainPods) -> None:
    for number in range(2):
        pods.make(f"server-{number}", "pserver", owner="1", ip=f"127.0.2.{number + 1}")
        pods.make(f"trainer-{number}", "trainer", owner="2", ip=f"127.0.2.{number + 11}")


def found_at_once(pods: PlainPods, *names: str, **changes: str) -> dict[str, dict[str, str]]:
    """What pods that start at the same time find out."""
    with ThreadPoolExecutor(len(names)) as pool:
        return dict(zip(names, pool.map(lambda name: found(pods, name, **changes)[0], names), strict=True))


@pytest.mark.heavy
def test_a_replica_set_and_a_job_train_to_the_end(pods: PlainPods, criteo: dict[str, str], tmp_path: Path) -> None:
    settings = settings_for(criteo, tmp_path, "plain", checkpoint={"every_steps": 20})
    file = write_job(tmp_path / "job.yaml", settings)
    pods.jobs.kubectl("create", "secret", "generic", "clickline-token", f"--from-literal=token={secrets.token_hex(32)}")
    make_all(pods)
    base = str(port_range(3))
    for role in ("pserver", "trainer"):
        for name in (f"{role}-0", f"{role}-1"):
            # As in the YAML of older images: a deadline of ten hours, and a directory that this image does not have.
            more = {"FLAGS_rpc_deadline": "36000000", "TRAINER_PACKAGE": "/nowhere", "PADDLE_PORT": base}
            pods.start(name.replace("pserver", "server"), ENTRY=f"clickline {role} {file}", **more)
    names = list(pods.processes)
    assert {name: pods.code(name) for name in names} == dict.fromkeys(names, 0), "\n".join(map(pods.log, names))
    result = json.loads((tmp_path / "runs" / "plain" / "result.json").read_text())
    assert (result["rows"], result["lost_pushes"]) == (4500, 0)
    assert "36000 s is lowered to 600" in pods.log("trainer-0")
    assert "'/nowhere' is no directory of this image" in pods.log("trainer-0")
    # A ReplicaSet starts its containers again when they end: now there is nothing to do.
    for number in range(2):
        pods.set_status(f"trainer-{number}", phase="Succeeded")
    server = pods.start("server-0", "/job.yaml")
    eventually(lambda: "there is nothing to serve" in pods.log("server-0"), what="an idle server", process=server)
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 130


def test_pods_get_addresses_ranks_and_the_name_of_this_start(pods: PlainPods) -> None:
    make_all(pods)
    results = found_at_once(pods, "server-0", "server-1", "trainer-0", "trainer-1")
    for role in ("server", "trainer"):
        assert {results[f"{role}-{number}"]["CLICKLINE_RANK"] for number in range(2)} == {"0", "1"}
    by_rank = {results[name]["CLICKLINE_RANK"]: results[name]["POD_IP"] for name in ("server-0", "server-1")}
    addresses = f"{by_rank['0']}:30236,{by_rank['1']}:30237"
    for env in results.values():
        assert env["PADDLE_PSERVERS_IP_PORT_LIST"] == env["PADDLE_PSERVERS"] == addresses
        assert env["CLICKLINE_PSERVERS"] == ",".join(f"tcp:{address}" for address in addresses.split(","))
        assert (env["CLICKLINE_COORDINATOR_PORT"], env["CLICKLINE_TRAINERS"]) == ("30238", "2")
        assert env["CLICKLINE_LAUNCH"].endswith("2"), "the trainers' Job"
    assert results["trainer-0"]["PADDLE_TRAINER_IPS"] == results["trainer-1"]["PADDLE_TRAINER_IPS"]


def test_a_pod_that_replaces_another_takes_its_rank_and_no_other(pods: PlainPods) -> None:
    make_all(pods)
    before = found_at_once(pods, "server-0", "server-1", "trainer-0", "trainer-1")
    for role, gone in (("pserver", "server-0"), ("trainer", "trainer-0")):
        pods.delete(gone)
        # It would come first by its name, and second by its age.
        pods.make(f"a-{role}", role, owner="2", ip="127.0.2.30")
    after = found_at_once(pods, "a-pserver", "server-1", "a-trainer", "trainer-1")
    for name in ("server-1", "trainer-1"):
        assert after[name]["CLICKLINE_RANK"] == before[name]["CLICKLINE_RANK"], "one that is restarted keeps its rank"
    assert after["a-pserver"]["CLICKLINE_RANK"] == before["server-0"]["CLICKLINE_RANK"]
    assert after["a-trainer"]["CLICKLINE_RANK"] == before["trainer-0"]["CLICKLINE_RANK"]
    assert "127.0.2.30:" in after["trainer-1"]["CLICKLINE_PSERVERS"]


def test_pods_in_the_network_of_one_node_have_ports_of_their_own(pods: PlainPods) -> None:
    for number in range(2):
        pods.make(f"server-{number}", "pserver", ip="127.0.2.1")
        pods.make(f"trainer-{number}", "trainer", owner="2", ip="127.0.2.1")
    results = found_at_once(pods, "server-0", "server-1")
    for env in results.values():
        assert env["PADDLE_PSERVERS"] == "127.0.2.1:30236,127.0.2.1:30237"


def test_many_pods_at_once_have_as_many_ranks(pods: PlainPods) -> None:
    names = [f"server-{number}" for number in range(8)]
    for name in names:
        pods.make(name, "pserver", ip="127.0.2.1")
    pods.make("trainer-0", "trainer", owner="2", ip="127.0.2.1")
    results = found_at_once(pods, *names, PADDLE_PSERVERS_NUM="8")
    assert sorted(env["CLICKLINE_RANK"] for env in results.values()) == [str(number) for number in range(8)]


def test_who_is_missing_is_said(pods: PlainPods) -> None:
    pods.make("server-0", "pserver", ip="127.0.2.1")
    pods.make("server-1", "pserver", phase="Pending")
    pods.make("trainer-0", "trainer", owner="2", ip="127.0.2.3")
    with pytest.raises(PeerError) as caught:
        found(pods, "server-0", timeout=0.1)
    expected = "pods with label paddle-job-pserver=fluid-ctr: 1 of 2 are running (server-1 is Pending, without an IP)"
    assert expected in str(caught.value)
    assert "not there within 0.1 s" in str(caught.value)
    pods.make("trainer-1", "trainer", owner="2", ip="127.0.2.4")
    with pytest.raises(PeerError, match=r"1 of 2 are running \(trainer-1 runs, and has not claimed a rank\)"):
        found(pods, "trainer-0", timeout=0.1)


def test_a_server_more_than_there_are_ranks_is_told_why_it_waits(pods: PlainPods) -> None:
    make_all(pods)
    found_at_once(pods, "server-0", "server-1")
    pods.make("server-2", "pserver", ip="127.0.2.3")
    with pytest.raises(
        PeerError, match=r"2 servers are expected and .* more replicas need another PADDLE_PSERVERS_NUM"
    ):
        found(pods, "server-2", timeout=0.1)


def test_an_account_without_rights_is_told_the_command_that_gives_them(pods: PlainPods) -> None:
    make_all(pods)
    pods.use_account("nobody")
    process = pods.start("server-0", "--timeout", "0.1", CLICKLINE_TOKEN=secrets.token_hex(16))
    assert process.wait(60) == 7
    log = pods.log("server-0")
    assert "does not let this pod see the others" in log
    assert f"--clusterrole=view --serviceaccount={pods.namespace}:nobody --namespace={pods.namespace}" in log


def test_with_rights_to_read_only_ranks_are_by_age(pods: PlainPods) -> None:
    make_all(pods)
    pods.use_account("reader")
    # What Kubernetes' own role `view` has of it; that one is filled by the controller manager, which is not here.
    pods.jobs.kubectl("create", "role", "view", "--verb=get,list,watch", "--resource=pods,configmaps")
    pods.jobs.kubectl("create", "rolebinding", "view", "--role=view", f"--serviceaccount={pods.namespace}:reader")
    env, said = found(pods, "server-1")
    assert (env["CLICKLINE_RANK"], env["PADDLE_PSERVERS"]) == ("1", "127.0.2.1:30236,127.0.2.2:30237")
    assert "ranks are by the age of pods" in said[0]


def test_a_pod_without_the_label_is_told_how_to_have_it(pods: PlainPods) -> None:
    make_all(pods)
    with pytest.raises(JobError, match="not to be told from the others with label paddle-job-pserver=fluid-ctr"):
        found(pods, "server-0", POD_NAME="other", POD_IP="127.0.9.9", PADDLE_CURRENT_IP="")
    by_ip = found_at_once(pods, "server-0", "server-1", POD_NAME="other")
    assert {env["CLICKLINE_RANK"] for env in by_ip.values()} == {"0", "1"}


def test_without_a_token_the_pod_says_what_to_add(pods: PlainPods) -> None:
    make_all(pods)
    assert pods.start("server-0").wait(60) == 3
    assert "kubectl create secret generic clickline-token" in pods.log("server-0")
    assert "secretKeyRef: {name: clickline-token, key: token}" in pods.log("server-0")


def test_without_servers_trainers_are_told_each_others_endpoints(pods: PlainPods) -> None:
    make_all(pods)
    results = found_at_once(pods, "trainer-0", "trainer-1", PADDLE_PSERVERS_NUM="0")
    ends = {result["PADDLE_TRAINER_ENDPOINTS"] for result in results.values()}
    assert len(ends) == 1
    assert sorted(end.split(":")[0] for end in ends.pop().split(",")) == ["127.0.2.11", "127.0.2.12"]
