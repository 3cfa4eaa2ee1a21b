"""From a job of strategy collective and its hosts to what each host runs: ranks of torch.distributed.

They are told what torchrun would tell them. Rank 0 is on the first host, has the run's directory, and holds the store
at which the others meet it; checkpoints travel to it as far as ranks do not see that directory.
"""

from __future__ import annotations

from clickline.config import Job
from clickline.launch.hosts.host_messages import HostPlan, PlannedProcess
from clickline.launch.hosts.plans.job_placement import JobPlacement


def plan_ranks(job: Job, placement: JobPlacement) -> list[HostPlan]:
    """The plan of each host, which has as many ranks as trainers."""
    hosts, threads = placement.hosts, placement.threads
    shared = {
        "WORLD_SIZE": str(sum(host.trainers for host in hosts)),
        "MASTER_ADDR": hosts[0].reached_at,
        "MASTER_PORT": str(placement.ports[0][0]),
        "TORCH_CPP_LOG_LEVEL": "ERROR",  # else PyTorch prints stack frames when a peer dies
    }
    machines = [host.reached_at for host in hosts for _ in range(host.trainers)]
    plans: list[HostPlan] = []
    first = 0
    for node, host in enumerate(hosts):
        given = threads[node] if threads else job.cluster.threads
        processes = []
        for rank in range(first, first + host.trainers):
            own = {
                "RANK": str(rank),
                "LOCAL_RANK": str(machines[:rank].count(host.reached_at)),
                "LOCAL_WORLD_SIZE": str(machines.count(host.reached_at)),
                **({"OMP_NUM_THREADS": str(given)} if given else {}),
            }
            chosen = [*placement.arguments, *(["--set", f"cluster.threads={given}"] if given else [])]
            processes.append(PlannedProcess(role="trainer", verb="train", rank=rank, arguments=chosen, environment=own))
        first += host.trainers
        # Never restarted alone: without one rank the collective operations of all the others fail.
        plans.append(placement.host_plan(job, node, processes, shared, restarts=0))
    return plans
