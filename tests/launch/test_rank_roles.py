"""Which rank runs what, and at which address the others reach it."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest

from clickline.config import Job
from clickline.config.cluster import Cluster
from clickline.errors import JobError
from clickline.launch.mpi.host_addresses import own_addresses
from clickline.launch.mpi.rank_messages import HostAddress, RankFacts
from clickline.launch.mpi.rank_preparation import problems_of_facts
from clickline.launch.mpi.rank_roles import deal_roles, threads_of
from clickline.net.own_addresses import interface_of


def ranks(*hosts: str, cores: list[list[int]] | None = None, **changes: str) -> list[RankFacts]:
    """Ranks on these hosts. Each host has a bridge for containers, with the address that it has everywhere."""
    return [
        RankFacts(
            rank=rank,
            hostname=host,
            addresses=[
                HostAddress("172.17.0.1", "172.17.0.0/16"),
                HostAddress(f"10.0.0.{ord(host)}", "10.0.0.0/24"),
            ],
            clickline=changes.get("clickline", "1") if rank else "1",
            python=changes.get("python", "3.11.2") if rank else "3.11.9",
            command=changes.get("command", "train job.yaml") if rank else "train job.yaml",
            cores=cores[rank] if cores else [0, 1, 2, 3],
        )
        for rank, host in enumerate(hosts)
    ]


def dealt(cluster: Cluster, *hosts: str) -> list[tuple[int, int]]:
    return [(role.pservers, role.trainers) for role in deal_roles(Job(cluster=cluster), ranks(*hosts))]


@pytest.mark.parametrize(
    ("hosts", "settings", "expected"),
    [
        ("ab", {}, [(1, 1), (1, 1)]),
        ("aabb", {}, [(1, 0), (0, 1), (1, 0), (0, 1)]),
        ("abab", {}, [(1, 0), (1, 0), (0, 1), (0, 1)]),  # mpirun --map-by node
        ("aaaa", {}, [(1, 0), (0, 1), (0, 1), (0, 1)]),
        ("abb", {}, [(1, 1), (1, 0), (0, 1)]),
        ("aabb", {"pservers": 1, "trainers": 3}, [(1, 0), (0, 1), (0, 1), (0, 1)]),
        ("ab", {"pservers": 1, "trainers": 2}, [(1, 1), (0, 1)]),
        ("ab", {"pservers": 4}, [(2, 1), (2, 1)]),
        (
            "aabb",
            {"hosts": [{"host": "b", "trainers": 3}, {"host": "a", "trainers": 0}]},
            [(1, 0), (0, 0), (1, 1), (0, 2)],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_servers_go_round_the_hosts_and_trainers_to_the_ranks_with_the_least(hosts, settings, expected):
    assert dealt(Cluster.model_validate(settings), *hosts) == expected


def test_every_rank_trains_in_a_collective_job_and_one_process_is_not_for_ranks():
    roles = deal_roles(Job(strategy="collective", cluster=Cluster(pservers=3)), ranks("a", "a", "b"))
    assert [(role.pservers, role.trainers) for role in roles] == [(0, 1)] * 3
    with pytest.raises(JobError, match="strategy: single trains in one process"):
        deal_roles(Job(strategy="single"), ranks("a", "b"))


def test_a_host_knows_its_networks_and_no_loopback_address():
    for own in own_addresses():
        assert IPv4Address(own.address) in IPv4Network(own.network)
        assert not IPv4Address(own.address).is_loopback
        assert Path("/sys/class/net", interface_of(own.address)).is_dir()


def test_hosts_meet_in_the_network_in_which_each_has_an_address_of_its_own():
    assert [role.address for role in deal_roles(Job(), ranks("a", "b"))] == ["10.0.0.97", "10.0.0.98"]
    assert [role.address for role in deal_roles(Job(), ranks("a", "a"))] == ["127.0.0.1", "127.0.0.1"]
    named = Cluster.model_validate({"hosts": [{"host": "a"}, {"host": "b", "address": "fd00::b"}]})
    assert [role.address for role in deal_roles(Job(cluster=named), ranks("a", "b"))] == ["10.0.0.97", "fd00::b"]


@pytest.mark.parametrize(
    ("named", "words"),
    [
        (["a"], "rank 1 runs on 'b', which cluster.hosts does not name (it names 'a')"),
        (["a", "b", "c"], "cluster.hosts names 'c', and no rank was started there"),
    ],
)
def test_other_hosts_than_those_of_the_job_are_refused(named, words):
    cluster = Cluster.model_validate({"hosts": [{"host": host} for host in named]})
    with pytest.raises(JobError) as caught:
        deal_roles(Job(cluster=cluster), ranks("a", "b"))
    assert words in str(caught.value)


def test_trainers_share_the_cores_that_their_ranks_are_bound_to():
    free = deal_roles(Job(), ranks("a", "a", "a", "b"))
    assert [threads_of(Cluster(), role, free) for role in free] == [2, 2, 2, 4]
    bound = deal_roles(Job(), ranks("a", "a", "a", cores=[[0], [1], [2, 3]]))
    assert [threads_of(Cluster(), role, bound) for role in bound] == [1, 1, 2]
    assert threads_of(Cluster(threads=7), bound[0], bound) == 7


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clickline": "2"}, "rank 1 on b: it has clickline 2, rank 0 has 1"),
        ({"python": "3.12.1"}, "rank 1 on b: it has Python 3.12.1, rank 0 has 3.11.9"),
        ({"command": "train other.yaml"}, "rank 1 on b: it was started as `train other.yaml`"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_rank_that_does_not_fit_is_named(changes, words):
    [problem] = problems_of_facts(ranks("a", "b", **changes))
    assert words in problem
    assert problems_of_facts(ranks("a", "b")) == []
