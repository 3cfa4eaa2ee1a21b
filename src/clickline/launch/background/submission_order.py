"""From a submission folder to the order for a launcher in the background, and to the hosts that the folder names."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from clickline.compat.paddlerec.submission.generated_files import MANIFESTS
from clickline.compat.paddlerec.submission.submission import Submission
from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
from clickline.errors import JobError
from clickline.launch.background.launch_order import LaunchOrder
from clickline.launch.hosts.host_list import read_host_list
from clickline.launch.hosts.host_messages import NodeFetch, NodeSteps
from clickline.launch.hosts.hostfile import read_hostfile


def host_overrides(options: SubmitOptions, *, beside: Path = Path()) -> list[str]:
    """Keys of the job that say on which hosts it runs: the first of the file, as many as the job wants nodes.

    Raises JobError if the file cannot be read.
    """
    if not options.hosts:
        return []
    path = beside / options.hosts
    if options.on == "mpi":
        read_hostfile(path)  # mpirun reads it: what is wrong is told before
        return []
    if options.on != "ssh":
        raise JobError(f"--hosts is for ssh and mpi: {options.on or 'no backend'} has hosts of its own; leave it out")
    listed = read_host_list(path)
    hosts = listed.cluster["hosts"]
    python = {"python": options.python} if options.python else {}
    cluster = {**listed.cluster, "hosts": [python | host for host in hosts[: options.nodes or len(hosts)]]}
    return [f"cluster.{key}={json.dumps(value)}" for key, value in cluster.items()]


def order_of(submission: Submission, folder: Path, *, job: str, resume: bool) -> LaunchOrder:
    """The order for a submission that is launched as `job`. It holds credentials."""
    options = submission.options
    steps = NodeSteps(
        before=submission.before,
        fetches=[NodeFetch(url=each.url, directory=each.directory, share=each.share) for each in submission.data],
        after=submission.after,
        epoch_links=submission.saved,
        upload=submission.upload,
        environment=submission.environment,
        storage=submission.storage,
    )
    return LaunchOrder(
        job=job,
        settings=submission.job.model_dump(mode="json"),
        launcher=options.on,
        workspace=str(folder.absolute()),
        steps=steps,
        resume=resume,
        warm_start=submission.warm_start,
        mpirun=_mpirun(options),
        python=options.python,
        manifests=(folder / MANIFESTS).read_text(encoding="utf-8") if options.on == "kubernetes" else "",
    )


def _mpirun(options: SubmitOptions) -> list[str]:
    """The command with the number of ranks and the hostfile, unless it says them itself."""
    try:
        words = shlex.split(options.mpirun)
    except ValueError as error:
        raise JobError(f"--mpirun {options.mpirun!r} cannot be read: {error}") from None
    if words and not {"-np", "-n", "-c", "--n"} & set(words):
        words += ["-np", str(options.nodes or 1)]
    if words and options.hosts and not {"--hostfile", "-hostfile", "--machinefile", "-machinefile", "-f"} & set(words):
        words += ["--hostfile", options.hosts]
    return words
