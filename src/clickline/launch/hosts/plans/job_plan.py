"""From a job and its hosts to what each host runs: how many processes and ports, whether it can be, and the plans."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from clickline.config import Job
from clickline.config.hosts import Host
from clickline.config.validation.contradictions import ON_SERVERS, host_problems
from clickline.errors import JobError
from clickline.launch.hosts.host_messages import HostPlan, NodeSteps
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.launch.hosts.plans.rank_plan import plan_ranks
from clickline.launch.hosts.plans.server_plan import plan_servers


def ports_wanted(job: Job, hosts: Sequence[Host]) -> list[int]:
    """How many ports each host needs: for its servers, and on the first one for the coordinator, or for rank 0."""
    servers = [0 if job.resolved_strategy == "collective" else host.pservers for host in hosts]
    return [count + (node == 0) for node, count in enumerate(servers)]


def with_counts(job: Job) -> Job:
    """The job with as many servers and trainers as its hosts have together, where it names hosts."""
    return job.model_copy(update={"cluster": job.cluster.model_copy(update=_counts(job))})


def counts_of_hosts(job: Job) -> list[str]:
    """The same as overrides of the job."""
    return [f"cluster.{what}={count}" for what, count in _counts(job).items()]


def _counts(job: Job) -> dict[str, int]:
    hosts = job.cluster.hosts
    pservers = 0 if job.strategy == "collective" else sum(host.pservers for host in hosts)
    trainers = sum(host.trainers for host in hosts)
    return ({"pservers": pservers} if hosts else {}) | ({"trainers": trainers} if trainers else {})


def check_hosts(job: Job) -> None:
    """Raise JobError if no run can come of the job's hosts."""
    if not job.cluster.hosts:
        raise JobError(
            "cluster.hosts is empty: name the hosts, such as cluster: {hosts: [{host: node1}, {host: node2}]}"
        )
    if job.strategy == "single":
        raise JobError(
            "strategy single is one process on one machine: leave out --on and the hosts, or set strategy to auto or "
            f"one of {', '.join(ON_SERVERS)}, collective"
        )
    for problem in host_problems(job):
        raise JobError(f"{problem.key}: {problem.message}")


def plan_job(job: Job, placement: JobPlacement, steps: NodeSteps | None = None) -> list[HostPlan]:
    """The plan of each host, with what is done before and after the processes."""
    ranks = job.resolved_strategy == "collective"
    return with_steps(plan_ranks(job, placement) if ranks else plan_servers(job, placement), steps)


def with_steps(plans: Sequence[HostPlan], steps: NodeSteps | None) -> list[HostPlan]:
    """The plans with what is done before and after the processes, once on each machine; all start together then.

    Processes of one machine run in one directory, where its scripts run and its files are.
    """
    if steps is None:
        return list(plans)
    # Several plans may be of one machine (ranks of mpirun, actors of Ray). The first of them does the steps for all:
    # scripts run once on a machine, and files are fetched once.
    machines = [plan.environment.get("CLICKLINE_NODE", str(plan.node)) for plan in plans]
    first = dict(reversed(list(zip(machines, plans, strict=True))))
    training = [
        machine
        for machine in dict.fromkeys(machines)
        if any(
            each.role == "trainer"
            for at, plan in zip(machines, plans, strict=True)
            if at == machine
            for each in plan.processes
        )
    ]
    changed = []
    for plan, machine in zip(plans, machines, strict=True):
        own = None
        if plan is first[machine]:
            own = msgspec.structs.replace(
                steps,
                upload=steps.upload if plan is plans[0] else "",
                epoch_links=steps.epoch_links if plan is plans[0] else "",
                fetches=[fetch for fetch in steps.fetches if machine in training or not fetch.share],
                node=training.index(machine) if machine in training else 0,
                nodes=len(training),
            )
        changed.append(
            msgspec.structs.replace(
                plan,
                steps=own,
                awaits_start=True,
                workspace=plan.workspace or first[machine].directory,
                environment={**steps.environment, **plan.environment},
            )
        )
    return changed
