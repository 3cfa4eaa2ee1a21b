"""`clickline run` on a node of a cluster (PADDLE_PADDLEREC_ROLE=WORKER): one process, or rank, of a submitted job."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clickline.cli.shared.roles import run_role
from clickline.cli.verbs.training.train_on_hosts import HostOptions, train_on_hosts

if TYPE_CHECKING:
    from clickline.config.loading.reader import Draft

_SERVERS = ("CLICKLINE_PSERVERS", "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_PSERVERS")
_ROLES = ("CLICKLINE_ROLE", "TRAINING_ROLE", "PADDLE_TRAINING_ROLE")


def run_on_node(config: Path, paddle_overrides: list[str], overrides: list[str], *, as_json: bool) -> None:
    """Do the part of this process: that of an MPI rank, or of a role that the environment names."""
    from clickline.compat.paddlerec.job_files import read_job_file
    from clickline.errors import JobError
    from clickline.launch.environment import torch_environment
    from clickline.launch.launchers import follow_first_rank
    from clickline.launch.local.training_run import train_job
    from clickline.launch.mpi.rank_environment import is_rank
    from clickline.train.preflight import check_draft

    def read(weak: list[str], strong: list[str] | None = None) -> Draft:
        given = [*weak, *overrides, *(strong or [])]
        return read_job_file(str(config), overrides=given, paddle_overrides=paddle_overrides).draft

    if is_rank():
        if not follow_first_rank():
            options = HostOptions(workspace=config.parent)
            train_on_hosts(read, "mpi", options, resume=False, fresh=True, as_json=as_json)
        return
    strategy = read([]).loaded.job.resolved_strategy
    # How many servers there are, the environment may know better than the file.
    alone = strategy == "single" and not any(os.environ.get(name) for name in _SERVERS)
    if strategy == "collective" or alone:
        os.environ.update(torch_environment(os.environ) if strategy == "collective" else {})
        if "RANK" in os.environ or alone:
            checked = check_draft(read([]))
            train_job(checked.job, fresh=True, checked=True)
            return
    if not any(os.environ.get(name) for name in _ROLES):
        raise JobError(
            "PADDLE_PADDLEREC_ROLE is WORKER, and nothing says which of a job's processes this is: expected a rank of "
            "mpirun, or TRAINING_ROLE and PADDLE_PSERVERS_IP_PORT_LIST; to submit from here, unset it"
        )
    run_role(None, read)
