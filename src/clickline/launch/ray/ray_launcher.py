"""A whole run on a Ray cluster: roles placed, started and watched.

Everything is placed anew when a node with servers is lost, or, under `strategy: collective`, with ranks.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.config.hosts import Host
from clickline.config.run_location import run_directory_of
from clickline.errors import JobError, PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.data_view import paths_for_all, problems_of_views
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.hosts_run import HostsRun
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.launch.hosts.plans.job_plan import plan_job
from clickline.launch.hosts.runner_connection import HostLost
from clickline.launch.hosts.workspace_archive import packed
from clickline.launch.job_records import JobHost, JobRecord, kept_record, new_job_name, new_record, write_record
from clickline.launch.launchers import LaunchedResult, LaunchOptions
from clickline.launch.ray.ray_cluster import RayCluster, connected, import_ray
from clickline.launch.ray.ray_connection import RayAccess
from clickline.launch.ray.role_actor import RolePlace
from clickline.launch.ray.role_placement import PlacedRole, RolePlacement, roles_of

_LISTENING = ("coordinator", "pserver")
_NO_PORT = -1
_NEEDED = {"trainer": "ranks", "pserver": "parameter servers"}
"""Roles that a run cannot do without, with and without parameter servers."""


class RayLauncher:
    """Trains one job on the nodes of a Ray cluster, of which this machine is one. The run's directory is here."""

    def __init__(self, job: Job, options: LaunchOptions) -> None:
        import_ray()
        check_job(job)
        self._job, self._options, self._watcher = job, options, options.watcher
        self._directory = run_directory_of(job).absolute()
        self._archive = packed(options.workspace)
        self.name = options.job or new_job_name()
        self._needed = "trainer" if job.resolved_strategy == "collective" else "pserver"
        self._losses = 0
        """How often a node with one of those was lost, and the run placed anew."""

    def run(self) -> LaunchedResult:
        """From the placement of the roles to the result. Raises PeerError; nothing is left running in any case."""
        with connected() as cluster:
            record = new_record(
                self.name, name=self._job.name, launcher="ray", run_directory=str(self._directory), hosts=[]
            )
            record.cluster = cluster.address
            with kept_record(record):
                while not self._carried_out(cluster, record):
                    pass
            here = cluster.own_address()
        content = (self._directory / "result.json").read_bytes()
        result = LaunchedResult.read(content, host=here, job=self.name)
        return replace(result, account={**result.account, "node_losses": self._losses})

    def _carried_out(self, cluster: RayCluster, record: JobRecord) -> bool:
        """Whether the run has come to its end; if not, it is to be placed anew, without a node that is lost."""
        job = self._job if not self._losses else self._shrunk(cluster)
        placement = RolePlacement(cluster, job=self.name, roles=roles_of(job))
        access: RayAccess | None = None
        try:
            self._watcher.begin(f"placing {len(placement.roles)} processes on {len(cluster.nodes())} nodes")
            placement.await_ready(within=job.cluster.start_timeout)
            access, plans, places = self._prepared(job, cluster, placement)
            self._watcher.end()
            record.hosts = [JobHost(place.address, place.directory) for place in places]
            write_record(record)
            names = [place.address for place in places]
            on_start = self._options.on_start
            run = HostsRun(job, plans=plans, names=names, access=access, watcher=self._watcher, on_start=on_start)
            run.carry_out(log=Path(record.log))
        except PeerError as error:
            lost = access.lost_nodes((self._needed,)) if access is not None else []
            if not lost and not isinstance(error, HostLost):
                raise
            self._note_loss(record, ", ".join(lost) or str(error))
            return False
        finally:
            placement.remove()
        return True

    def _note_loss(self, record: JobRecord, what: str) -> None:
        self._losses += 1
        limit, lost = self._job.cluster.restarts, f"lost with {_NEEDED[self._needed]} on it: {what}"
        if self._losses > limit:
            raise PeerError(
                f"{lost}; cluster.restarts is {limit}, so the run is not placed anew; --resume goes on from the last "
                "checkpoint, with the nodes that are left"
            )
        text = (
            f"{lost}; everything is placed anew on the nodes that are left and goes on from the last checkpoint, "
            f"{self._losses} of {limit} times"
        )
        self._watcher.say(text)
        with Path(record.log).open("a", encoding="utf-8") as log:
            log.write(f"{record.hosts[0].host} launcher: {text}\n")

    def _shrunk(self, cluster: RayCluster) -> Job:
        """The job as the nodes that are left can train it."""
        cpus = sum(int(node.cpus) for node in cluster.nodes())
        job, wanted = fitted(self._job, cpus=cpus), self._job.cluster.trainers
        if job.cluster.trainers != wanted:
            self._watcher.say(f"{cpus} CPUs are left: {job.cluster.trainers} of {wanted} trainers are started")
        return job

    def _prepared(
        self, job: Job, cluster: RayCluster, placement: RolePlacement
    ) -> tuple[RayAccess, list[HostPlan], list[RolePlace]]:
        """An actor for each role, ready to run its plan."""
        ray = cluster.ray
        silence = 2 * job.cluster.evict_after
        archive, text = ray.put(self._archive), json.dumps(job.model_dump(mode="json"), indent=1)

        # What steps bring along is not there yet.
        paths = paths_for_all(job.data) if self._options.steps is None else []

        def asked(actor: Any, number: int, port: int) -> Any:
            reads = number == 0 or placement.roles[number].role == "trainer"
            return actor.prepare.remote(job.cluster.root, archive, text, port, paths if reads else [])

        def prepare(actor: Any, number: int) -> RolePlace:
            answer = ray.get(asked(actor, number, _NO_PORT), timeout=job.cluster.start_timeout)
            return decode_json(answer, RolePlace)

        actors = [placement.new_actor(number, silence=silence) for number in range(len(placement.roles))]
        ports = self._ports(placement.roles)
        answers = [asked(actor, number, ports[number]) for number, actor in enumerate(actors)]
        try:
            places = [decode_json(answer, RolePlace) for answer in ray.get(answers, timeout=job.cluster.start_timeout)]
        except ray.exceptions.RayError as error:
            raise PeerError(f"nothing was started: {_reason(error)}") from None
        check_versions(places)
        if paths:
            check_data(placement.roles, places)
        plans = self._plans(job, placement.roles, places)
        restarts = job.cluster.restarts
        return (
            RayAccess(cluster, placement, actors=actors, places=places, prepare=prepare, restarts=restarts),
            plans,
            places,
        )

    def _ports(self, roles: Sequence[PlacedRole]) -> list[int]:
        """For each role the port to have: -1 for none, 0 for any."""
        first = self._job.cluster.port
        listening = [number for number, role in enumerate(roles) if number == 0 or role.role in _LISTENING]
        return [
            _NO_PORT if number not in listening else first + listening.index(number) if first else 0
            for number in range(len(roles))
        ]

    def _plans(self, job: Job, roles: Sequence[PlacedRole], places: Sequence[RolePlace]) -> list[HostPlan]:
        """One for each role, as if it had a host for itself."""
        hosts = [
            Host(host=place.address, pservers=int(role.role == "pserver"), trainers=int(role.role == "trainer"))
            for role, place in zip(roles, places, strict=True)
        ]
        placement = JobPlacement(
            name=self.name,
            token=secrets.token_hex(32),
            hosts=hosts,
            ports=[[place.port] if place.port else [] for place in places],
            directories=[place.directory for place in places],
            run_directory=str(self._directory),
            arguments=self._beginning(),
        )
        return plan_job(job, placement, self._options.steps)

    def _beginning(self) -> list[str]:
        if not self._losses:
            return self._options.beginning
        # Without a checkpoint nothing is thrown away, except the record of a run whose servers are gone.
        has_checkpoint = any((self._directory / "checkpoints").glob("step-*"))
        return ["--resume" if has_checkpoint else "--fresh"]


def check_job(job: Job) -> None:
    """Raise JobError unless Ray can place the processes of a job."""
    if job.cluster.hosts:
        raise JobError(
            "cluster.hosts is for --on ssh: Ray chooses the nodes itself; leave it out, and say how many processes "
            "there are by cluster.pservers and cluster.trainers"
        )
    if job.data.placement == "node":
        raise JobError(
            "data.placement: node needs hosts that stay where they are, and Ray may place a trainer on another node: "
            "expected shared or split, or --on ssh"
        )
    if job.resolved_strategy == "single":
        raise JobError(
            "strategy single is one process on one machine: set cluster.pservers to 1 or more, or cluster.trainers to "
            "more than 1 for strategy collective, or train without --on ray"
        )


def check_versions(places: Sequence[RolePlace]) -> None:
    """Raise PeerError unless all nodes have our version."""
    ours = version("clickline")
    others = sorted({f"{place.address} has {place.clickline}" for place in places if place.clickline != ours})
    if others:
        raise PeerError(f"nothing was started: here is clickline {ours}, {', '.join(others)}: all must have the same")


def check_data(roles: Sequence[PlacedRole], places: Sequence[RolePlace]) -> None:
    """Raise PeerError, with every problem of every node, unless all roles that read data see the same."""
    readers = [(role, place) for role, place in zip(roles, places, strict=True) if role.role != "pserver"]
    problems = problems_of_views({place.address: place.data for _, place in readers})
    if problems:
        raise PeerError("nothing was started:\n" + "\n".join(f"  {problem}" for problem in problems))


def fitted(job: Job, *, cpus: int) -> Job:
    """The job with as many trainers as there are CPUs for, at least one and at most as many as it has."""
    taken = sum(role.cpus for role in roles_of(job) if role.role != "trainer")
    trainers = max(1, min(job.cluster.trainers, (cpus - taken) // (job.cluster.threads or 1)))
    return job.model_copy(update={"cluster": job.cluster.model_copy(update={"trainers": trainers})})


def _reason(error: Exception) -> str:
    """Ray's own words, the last of which name the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if any("No module named 'clickline'" in line for line in lines):
        return (
            f"a node has no clickline in the Python that runs Ray there: pip install clickline=={version('clickline')}"
        )
    return lines[-1] if lines else type(error).__name__


def open_launcher(job: Job, options: LaunchOptions) -> RayLauncher:
    return RayLauncher(job, options)
