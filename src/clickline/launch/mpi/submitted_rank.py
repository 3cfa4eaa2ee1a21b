"""A rank of a job that was submitted from elsewhere: python -m clickline.launch.mpi.submitted_rank, under mpirun.

Rank 0 reads the order from standard input, which mpirun passes on from the one who submits, and gives the other ranks
what they need: files, scripts, credentials. When standard input ends, whoever submitted is gone or wants the end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from clickline.errors import ClicklineError, PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.background.launch_order import EventReporter, LaunchOrder
from clickline.launch.background.launch_process import options_of, own_output, reporting
from clickline.launch.launchers import launch
from clickline.launch.mpi.first_rank import leading
from clickline.launch.mpi.rank_environment import read_rank_environment
from clickline.launch.mpi.rank_runner import follow_first_rank


def _lead(reporter: EventReporter) -> dict[str, Any]:
    with leading():
        order = decode_json(sys.stdin.buffer.readline(), LaunchOrder)
        threading.Thread(target=_end_with_input, name="clickline-submitter", daemon=True).start()
        job = order.checked_job
        # Where relative paths of a job begin on a host, as with other launchers.
        root = Path(job.cluster.root).expanduser()
        try:
            root.mkdir(parents=True, exist_ok=True)
            os.chdir(root)
        except OSError as error:
            raise PeerError(f"nothing was started: {root} cannot be used: {error}") from None
        result = launch(job, on="mpi", options=options_of(order, reporter))
    return {} if result is None else result.to_dict()


def _end_with_input() -> None:
    while sys.stdin.buffer.readline():
        pass
    os.kill(os.getpid(), signal.SIGINT)


def main() -> int:
    environment = read_rank_environment()
    if environment.is_first:
        reporter = EventReporter(own_output())
        return reporting(reporter, lambda: _lead(reporter))
    try:
        follow_first_rank(environment)
    except ClicklineError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
