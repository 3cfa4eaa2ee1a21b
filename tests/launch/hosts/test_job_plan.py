"""What each host of a job runs: ranks over all hosts, and the number of the host for every process."""

from __future__ import annotations

import json

from clickline.config import Job
from clickline.config.hosts import Host
from clickline.launch.environment import read_role
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.launch.hosts.plans.job_plan import plan_job
from clickline.launch.hosts.plans.server_plan import plan_servers

TOKEN = "t" * 32


def plans() -> list[HostPlan]:
    hosts = [{"host": "a", "trainers": 2}, {"host": "u@b", "pservers": 0}, {"host": "c", "address": "10.0.0.3"}]
    job = Job.model_validate({"name": "far", "cluster": {"hosts": hosts}})
    placement = JobPlacement(
        name="JOB1",
        token=TOKEN,
        hosts=job.cluster.hosts,
        ports=[[7000, 7001], [], [7002]],
        directories=["/one", "/two", "/three"],
        run_directory="/one/runs/far",
    )
    return plan_job(job, placement)


def test_every_process_finds_its_rank_and_the_number_of_its_host() -> None:
    found = [
        (role.name, role.node, role.trainers, role.pservers)
        for plan in plans()
        for process in plan.processes
        for role in [read_role(process.role, environ={**plan.environment, **process.environment})]
    ]
    servers = ["tcp:a:7001", "tcp:10.0.0.3:7002"]
    assert found == [
        ("coordinator.0", 0, 4, servers),
        ("pserver.0", 0, 4, servers),
        ("trainer.0", 0, 4, servers),
        ("trainer.1", 0, 4, servers),
        ("trainer.2", 1, 4, servers),
        ("pserver.1", 2, 4, servers),
        ("trainer.3", 2, 4, servers),
    ]


def test_the_token_is_in_the_environment_only() -> None:
    for plan in plans():
        assert plan.environment["CLICKLINE_TOKEN"] == TOKEN
        assert TOKEN not in json.dumps([process.arguments for process in plan.processes])


def test_entries_that_share_a_machine_are_one_node() -> None:
    ranks = [
        Host(host=name, address=address) for name, address in (("r0", "10.0.0.1"), ("r1", "10.0.0.1"), ("r2", "b"))
    ]
    ports, directories = [[1, 2], [3], [4]], ["/"] * 3
    placement = JobPlacement(
        name="JOB1", token=TOKEN, hosts=ranks, ports=ports, directories=directories, run_directory="/runs"
    )
    made = plan_servers(Job(), placement)
    assert [plan.environment["CLICKLINE_NODE"] for plan in made] == ["0", "0", "1"]
