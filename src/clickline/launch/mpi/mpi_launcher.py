"""A whole run under mpirun or srun: ranks meet, each gets its part, and rank 0 watches them until the end."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Sequence

from clickline.config import Job
from clickline.config.run_location import run_directory_of
from clickline.errors import PeerError
from clickline.launch.hosts.data_view import paths_for_all
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.hosts_run import HostsRun
from clickline.launch.hosts.plans import job_plan
from clickline.launch.hosts.runner_connection import EventQueue, RunnerConnection
from clickline.launch.job_records import JobHost, JobRecord, new_job_name, new_record
from clickline.launch.launchers import LaunchedResult, LaunchOptions
from clickline.launch.mpi.first_rank import first_rank, leading
from clickline.launch.mpi.rank_connections import RankConnection, RankListener
from clickline.launch.mpi.rank_environment import read_rank_environment
from clickline.launch.mpi.rank_messages import RankOffer, RankRequest, RankTask
from clickline.launch.mpi.rank_plans import RankPlanner
from clickline.launch.mpi.rank_roles import RankRole, check_roles, counts_of_roles, deal_roles
from clickline.launch.mpi.rank_runner import follow_first_rank, run_task

__all__ = ["count_overrides", "follow", "leading", "open_launcher"]


class RankAccess:
    """Ranks that connect to rank 0 by themselves. One that is lost does not come back."""

    def __init__(self, listener: RankListener, names: Sequence[str], *, within: float) -> None:
        self._listener, self._names, self._within = listener, names, within

    def connect(self, plan: HostPlan, events: EventQueue) -> RunnerConnection:
        line = self._listener.take(plan.node, within=self._within)
        return RankConnection(plan.node, self._names[plan.node], line, events, silence=plan.silence)

    def is_reachable(self, plan: HostPlan) -> bool:
        return False


class MpiLauncher:
    """Trains one job on the ranks that are there. `run` returns the result in rank 0, and None in all others."""

    def __init__(self, job: Job, options: LaunchOptions) -> None:
        self._environment = read_rank_environment()
        self._job, self._options, self._watcher = job, options, options.watcher
        self.name = options.job or new_job_name()
        self._token = secrets.token_hex(32)
        self._run_directory = run_directory_of(job).absolute()

    def run(self) -> LaunchedResult | None:
        """From the first exchange to the result. Raises PeerError; nothing is left running in any case."""
        if not self._environment.is_first:
            follow_first_rank(self._environment)
            return None
        with leading() as first:
            self._watcher.begin(f"meeting {self._environment.size} ranks")
            roles = deal_roles(self._job, first.meet())
            self._job = _with_counts(self._job, roles)
            check_roles(self._job, roles)
            tasks: list[RankTask] = []
            listeners: list[RankListener] = []

            def make_tasks(offers: Sequence[RankOffer]) -> list[RankTask]:
                port = offers[0].ports[0]
                listeners.append(RankListener(roles[0].address, port, token=self._token, ranks=len(roles)))
                tasks.extend(self._tasks(roles, offers, port=port))
                return tasks

            try:
                own = first.assign(self._requests(roles), make_tasks)
                self._watcher.end()
                self._watch(roles, tasks, own, listeners[0])
            finally:
                for listener in listeners:
                    listener.close()
        return self._result(roles[0].facts.hostname)

    def _watch(
        self, roles: Sequence[RankRole], tasks: Sequence[RankTask], own: RankTask, listener: RankListener
    ) -> None:
        plans = [task.plan for task in tasks if task.plan is not None]
        names = _names(roles)
        runner = threading.Thread(target=_run_own_task, args=(own,), name="clickline-rank-0-runner", daemon=True)
        runner.start()
        access = RankAccess(listener, names, within=self._job.cluster.start_timeout)
        on_start = self._options.on_start
        run = HostsRun(self._job, plans=plans, names=names, access=access, watcher=self._watcher, on_start=on_start)
        run.run(self._record(names, plans))
        runner.join(plans[0].grace)

    def _result(self, hostname: str) -> LaunchedResult:
        file = self._run_directory / "result.json"
        try:
            return LaunchedResult.read(file.read_bytes(), host=hostname, job=self.name)
        except OSError as error:
            raise PeerError(f"the result of {self.name} cannot be read: {error}") from None

    def _record(self, names: Sequence[str], plans: Sequence[HostPlan]) -> JobRecord:
        hosts = [JobHost(name, plan.directory) for name, plan in zip(names, plans, strict=True)]
        directory = str(self._run_directory)
        return new_record(self.name, name=self._job.name, launcher="mpi", run_directory=directory, hosts=hosts)

    def _requests(self, roles: Sequence[RankRole]) -> list[RankRequest]:
        """What each rank is to prepare: ports for its servers, in rank 0 for the coordinator and for the ranks too."""
        cluster, requests = self._job.cluster, []
        taken: dict[tuple[str, ...], int] = {}
        for role, wanted in zip(roles, job_plan.ports_wanted(self._job, [role.host for role in roles]), strict=True):
            ports = wanted + (role.facts.rank == 0)
            before = taken.setdefault(role.facts.node, 0)
            taken[role.facts.node] += ports
            first_port = cluster.port + before if cluster.port else 0
            # What steps bring along is not there yet.
            reads = (role.trainers or role.facts.rank == 0) and self._options.steps is None
            data = paths_for_all(self._job.data) if reads else []
            requests.append(
                RankRequest(job=self.name, root=cluster.root, first_port=first_port, ports=ports, data=data)
            )
        return requests

    def _tasks(self, roles: Sequence[RankRole], offers: Sequence[RankOffer], *, port: int) -> list[RankTask]:
        planner = RankPlanner(
            job=self._job,
            name=self.name,
            token=self._token,
            run_directory=self._run_directory,
            arguments=self._options.beginning,
        )
        job = json.dumps(self._job.model_dump(mode="json"), indent=1)
        address, patience = roles[0].address, self._job.cluster.start_timeout
        plans = job_plan.with_steps(planner.plans(roles, offers), self._options.steps)
        return [
            RankTask(
                plan=plan,
                job=job,
                # Without steps, ranks run where they were started, with the files that are there.
                archive=self._options.archive if plan.steps is not None else b"",
                address=address,
                port=port,
                patience=patience,
            )
            for plan in plans
        ]


def _run_own_task(task: RankTask) -> None:
    try:
        run_task(task, rank=0)
    except PeerError:
        return  # whoever reads from the connection, in this same process, has noticed


def _names(roles: Sequence[RankRole]) -> list[str]:
    """Of the ranks in messages: their hosts', with the rank where a host has several."""
    hosts = [role.facts.hostname for role in roles]
    return [host if hosts.count(host) == 1 else f"{host}/{rank}" for rank, host in enumerate(hosts)]


def _with_counts(job: Job, roles: Sequence[RankRole]) -> Job:
    counts = {what: sum(getattr(role, what) for role in roles) for what in ("pservers", "trainers")}
    return job.model_copy(update={"cluster": job.cluster.model_copy(update=counts)})


def follow() -> bool:
    """Do the part of a rank that is not the first, up to its end; False in rank 0."""
    environment = read_rank_environment()
    if not environment.is_first:
        follow_first_rank(environment)
    return not environment.is_first


def count_overrides(job: Job) -> list[str]:
    """How many servers and trainers the ranks will have, as overrides of the job. In rank 0 only."""
    return counts_of_roles(deal_roles(job, first_rank().meet()))


def open_launcher(job: Job, options: LaunchOptions) -> MpiLauncher:
    return MpiLauncher(job, options)
