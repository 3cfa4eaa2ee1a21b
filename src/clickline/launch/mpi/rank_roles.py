"""Which rank runs which processes of a job.

Without a word of the job there are as many servers as hosts, and as many trainers as there are other ranks, but no
fewer than hosts: with two ranks on each host every rank has one process, with one rank on each host it has both.
`cluster.pservers` and `cluster.trainers` say otherwise for the job, `cluster.hosts` for each host. Under
`strategy: collective` every rank trains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clickline.config import Job
from clickline.config.cluster import Cluster
from clickline.config.hosts import Host
from clickline.errors import JobError
from clickline.launch.mpi.host_addresses import addresses_of_nodes
from clickline.launch.mpi.rank_messages import RankFacts


@dataclass(slots=True)
class RankRole:
    """What one rank runs, and where it is reached. Rank 0 has the coordinator too."""

    facts: RankFacts
    address: str
    pservers: int = 0
    trainers: int = 0

    @property
    def host(self) -> Host:
        """As a plan takes it."""
        return Host(host=self.address, pservers=self.pservers, trainers=self.trainers)


def deal_roles(job: Job, ranks: Sequence[RankFacts]) -> list[RankRole]:
    """The role of each rank. Raises JobError if the job is not for ranks, or `cluster.hosts` names others."""
    if job.strategy == "single":
        raise JobError("strategy: single trains in one process, without --on mpi; for many choose another strategy")
    cluster = job.cluster
    nodes = list(dict.fromkeys(facts.node for facts in ranks))
    members = [[facts for facts in ranks if facts.node == node] for node in nodes]
    addresses = addresses_of_nodes([own[0] for own in members])
    hosts = _configured(cluster.hosts, [own[0] for own in members])
    if hosts:
        addresses = [host.address or address for host, address in zip(hosts, addresses, strict=True)]
    roles = [RankRole(facts, addresses[nodes.index(facts.node)]) for facts in ranks]
    if job.strategy == "collective":
        _deal(roles, pservers=0, trainers=len(ranks))
        return roles
    if hosts:
        for node, host in zip(nodes, hosts, strict=True):
            own = [role for role in roles if role.facts.node == node]
            _deal(own, pservers=host.pservers, trainers=host.trainers)
        return roles
    # Round the hosts: the first rank of each, then the second ones.
    local = {facts.rank: place for own in members for place, facts in enumerate(own)}
    order = sorted(roles, key=lambda role: (local[role.facts.rank], role.facts.rank))
    given = cluster.model_fields_set
    _deal(
        order,
        pservers=cluster.pservers if "pservers" in given else len(nodes),
        trainers=cluster.trainers if "trainers" in given else max(len(ranks) - len(nodes), len(nodes)),
    )
    return roles


def _deal(order: Sequence[RankRole], *, pservers: int, trainers: int) -> None:
    """Servers to the ranks in this order, then each trainer to the rank that has the fewest processes."""
    for number in range(pservers):
        order[number % len(order)].pservers += 1
    for _ in range(trainers):
        min(order, key=lambda role: role.pservers + role.trainers).trainers += 1


def _configured(hosts: Sequence[Host], nodes: Sequence[RankFacts]) -> list[Host]:
    """The job's hosts in the order of the ranks' hosts, by name or address; none if the job names none."""
    if not hosts:
        return []
    left, chosen = list(hosts), []
    for node in nodes:
        short = node.hostname.partition(".")[0]
        known_as = {node.hostname, short, *(entry.address for entry in node.addresses)}
        match = next((h for h in left if {h.reached_at, h.host.rpartition("@")[2]} & known_as), None)
        if match is None:
            names = ", ".join(repr(host.host) for host in hosts)
            raise JobError(
                f"rank {node.rank} runs on {node.hostname!r}, which cluster.hosts does not name (it names {names}): "
                "give mpirun and the job the same hosts, or leave cluster.hosts out"
            )
        left.remove(match)
        chosen.append(match)
    if left:
        raise JobError(
            f"cluster.hosts names {left[0].host!r}, and no rank was started there: give mpirun that host too"
        )
    return chosen


def counts_of_roles(roles: Sequence[RankRole]) -> list[str]:
    """How many servers and trainers all ranks have, as overrides of the job."""
    pservers, trainers = sum(role.pservers for role in roles), sum(role.trainers for role in roles)
    return [f"cluster.pservers={pservers}", f"cluster.trainers={trainers}"]


def check_roles(job: Job, roles: Sequence[RankRole]) -> None:
    """Raise JobError if no run can come of them."""
    if job.resolved_strategy == "collective":
        return
    for what in ("pservers", "trainers"):
        if not sum(getattr(role, what) for role in roles):
            raise JobError(f"the job has no {what}: set cluster.{what} to 1 or more, or leave it out")


def threads_of(cluster: Cluster, role: RankRole, roles: Sequence[RankRole]) -> int:
    """For dense maths in each trainer of a rank: its cores divided by the trainers that share them.

    mpirun may have bound the rank to a part of the host's cores.
    """
    if cluster.threads:
        return cluster.threads
    cores = set(role.facts.cores)
    sharing = sum(
        other.trainers for other in roles if other.facts.node == role.facts.node and cores & set(other.facts.cores)
    )
    return max(1, len(cores) // max(1, sharing))
