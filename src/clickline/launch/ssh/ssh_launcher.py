"""A whole run over ssh: hosts checked, files sent, processes started and watched, everything stopped at the end."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from clickline.config import Job
from clickline.config.hosts import Host
from clickline.config.run_location import is_elsewhere, local_path
from clickline.errors import PeerError
from clickline.launch.hosts.checkpoint_command import HELD
from clickline.launch.hosts.data_view import paths_for_all
from clickline.launch.hosts.host_messages import HostPlan
from clickline.launch.hosts.hosts_run import HostsRun
from clickline.launch.hosts.plans import job_plan
from clickline.launch.hosts.plans.job_placement import JobPlacement
from clickline.launch.hosts.runner_connection import EventQueue, RunnerConnection
from clickline.launch.job_records import JobHost, JobRecord, new_job_name, new_record
from clickline.launch.launchers import LaunchedResult, LaunchOptions
from clickline.launch.ssh.host_checks import HostFacts, HostNeeds, check_data, check_hosts
from clickline.launch.ssh.host_connection import HostConnection
from clickline.launch.ssh.job_environment import UNPACKED, check_wheel, install, wheel_name
from clickline.launch.ssh.ssh_client import run_on
from clickline.launch.ssh.workspace import Workspace

_SPARE_BYTES = 64 << 20
"""Free space that a host must have beside the workspace: for logs, and for a part of a checkpoint."""
_REACHABLE_WITHIN = 12.0


class SshAccess:
    """Hosts reached by the OpenSSH client."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts

    def connect(self, plan: HostPlan, events: EventQueue) -> RunnerConnection:
        return HostConnection(self._hosts[plan.node], plan, events)

    def is_reachable(self, plan: HostPlan) -> bool:
        try:
            run_on(self._hosts[plan.node], "true", timeout=_REACHABLE_WITHIN)
        except PeerError:
            return False
        return True


class SshLauncher:
    """Trains one job on its hosts. `run` returns the run's result, as written on the first host."""

    def __init__(self, job: Job, options: LaunchOptions) -> None:
        self._job = job_plan.with_counts(job)
        self._options, self._watcher = options, options.watcher
        self._hosts: Sequence[Host] = job.cluster.hosts
        job_plan.check_hosts(self._job)
        wheel, deployed = options.ssh.wheel, options.ssh.job_workspace
        if wheel is not None:
            check_wheel(wheel)
        self._workspace = Workspace(
            None if deployed else options.workspace, beside={} if wheel is None else {wheel_name(wheel): wheel}
        )
        self.name = options.job or new_job_name()

    def run(self) -> LaunchedResult:
        """From the first look at the hosts to the result. Raises PeerError; nothing is left running in any case."""
        self._watcher.begin(f"looking at {len(self._hosts)} hosts")
        facts = self._check()
        plans = self._prepare(facts)
        self._watcher.end()
        HostsRun(
            self._job,
            plans=plans,
            names=[host.host for host in self._hosts],
            access=SshAccess(self._hosts),
            watcher=self._watcher,
            on_start=self._options.on_start,
        ).run(self._record(plans))
        first = self._hosts[0]
        content = run_on(first, ["cat", f"{plans[0].directory}/output/result.json"])
        return LaunchedResult.read(content, host=first.host, job=self.name)

    def _record(self, plans: Sequence[HostPlan]) -> JobRecord:
        hosts = [
            JobHost(host.host, plan.directory, ssh_port=host.ssh_port, python=host.python)
            for host, plan in zip(self._hosts, plans, strict=True)
        ]
        return new_record(self.name, name=self._job.name, launcher="ssh", run_directory=plans[0].output, hosts=hosts)

    def _check(self) -> list[HostFacts]:
        cluster, wanted = self._job.cluster, job_plan.ports_wanted(self._job, self._hosts)
        ports: list[int | list[int]] = [
            list(range(cluster.port, cluster.port + count)) if cluster.port else count for count in wanted
        ]
        wheel = self._options.ssh.wheel
        needs = HostNeeds(
            root=cluster.root,
            bytes=self._workspace.bytes + _SPARE_BYTES + (UNPACKED * wheel.stat().st_size if wheel else 0),
            workspace=self._options.ssh.job_workspace,
            clickline=wheel is None,
        )
        return check_hosts(self._hosts, needs, ports=ports)

    def _prepare(self, facts: Sequence[HostFacts]) -> list[HostPlan]:
        """Send the workspace and the job everywhere, install what is to be installed; the plan of each host."""
        texts = {"job.yaml": json.dumps(self._job.model_dump(mode="json"), indent=1)}
        with ThreadPoolExecutor(len(self._hosts)) as pool:
            places = list(
                pool.map(
                    lambda node, host: self._workspace.send(
                        host, root=facts[node].root, job=self.name, node=node, texts=texts
                    ),
                    range(len(self._hosts)),
                    self._hosts,
                )
            )
        sent = sum(size for _, size in places)
        self._watcher.say(
            f"{self.name}: {len(self._workspace.files)} files on each host, {sent / 1e6:.1f} MB were sent"
        )
        ssh, run_directory = self._options.ssh, self._run_directory(facts[0])
        if ssh.wheel is not None:
            self._watcher.say(f"installing {ssh.wheel.name} on each host")
            self._hosts = install(self._hosts, [directory for directory, _ in places], ssh.wheel)
        directories = [directory for directory, _ in places]
        workspaces = [found.workspace for found in facts]
        # The first host reads data without trainers too: its coordinator cuts the files into pieces.
        readers = [node for node, host in enumerate(self._hosts) if node == 0 or host.trainers]
        if self._options.steps is None:  # what those bring along is not there yet
            check_data(
                [self._hosts[node] for node in readers],
                paths_for_all(self._job.data),
                directories=[workspaces[node] or directories[node] for node in readers],
            )
        passes = ["rows", "to-v1", f"{run_directory}/{HELD}", "--out", run_directory, "--drop-later"]
        placement = JobPlacement(
            name=self.name,
            token=secrets.token_hex(32),
            hosts=self._hosts,
            ports=[found.ports for found in facts],
            directories=directories,
            run_directory=run_directory,
            workspaces=workspaces,
            arguments=self._options.beginning,
            at_checkpoints=passes if ssh.pass_directories else [],
        )
        return job_plan.plan_job(self._job, placement, self._options.steps)

    def _run_directory(self, first: HostFacts) -> str:
        """Checkpoints and results on the first host: where `output` says, below the directory of jobs if relative.

        If that is a URL it is the local copy, from which the coordinator uploads.
        """
        if is_elsewhere(self._job.output):
            digest = hashlib.sha256(self._job.output.encode()).hexdigest()[:16]
            return str(PurePosixPath(first.root) / "copies" / digest / self._job.name)
        return str(PurePosixPath(first.root) / local_path(self._job.output) / self._job.name)


def open_launcher(job: Job, options: LaunchOptions) -> SshLauncher:
    return SshLauncher(job, options)
