"""From a job on parameter servers and its hosts to what each host runs: ranks, addresses and ports."""

from __future__ import annotations

import secrets

from clickline.config import Job
from clickline.launch.hosts.host_messages import HostPlan, PlannedProcess
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.net.addresses import tcp


def plan_servers(job: Job, placement: JobPlacement) -> list[HostPlan]:
    """The plan of each host: the coordinator on the first one, and the servers and trainers that the hosts name."""
    hosts, ports = placement.hosts, placement.ports
    servers = [
        tcp(host.reached_at, port, source=f"cluster.hosts[{node}]")
        for node, host in enumerate(hosts)
        for port in (ports[node][1:] if node == 0 else ports[node])
    ]
    shared = {
        "CLICKLINE_PSERVERS": ",".join(servers),
        "CLICKLINE_COORDINATOR": tcp(hosts[0].reached_at, ports[0][0], source="cluster.hosts[0]"),
        "CLICKLINE_TRAINERS": str(sum(host.trainers for host in hosts)),
        # Another one each time: what is placed anew after a loss is not started again, it is started.
        "CLICKLINE_LAUNCH": f"{placement.name}-{secrets.token_hex(4)}",
    }
    plans = []
    pservers = trainers = 0
    for node, host in enumerate(hosts):
        processes = []
        if node == 0:
            processes.append(PlannedProcess(role="coordinator", rank=0, arguments=list(placement.arguments)))
        for role, count, first in (("pserver", host.pservers, pservers), ("trainer", host.trainers, trainers)):
            for rank in range(first, first + count):
                own = {"CLICKLINE_RANK": str(rank)}
                if role == "trainer":
                    own["CLICKLINE_THREADS"] = str(job.cluster.threads) if job.cluster.threads else ""
                processes.append(PlannedProcess(role=role, rank=rank, environment=own, spare=role == "trainer"))
        pservers, trainers = pservers + host.pservers, trainers + host.trainers
        plans.append(placement.host_plan(job, node, processes, shared, restarts=job.cluster.restarts))
    return plans
