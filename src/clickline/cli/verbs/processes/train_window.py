"""`clickline train-window`: what the training pod of a deployed suite does."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

import typer


def train_window(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="training.yaml of the pod.", show_default=False)],
) -> None:
    """Train and publish hour by hour, in a pod that `clickline deploy` makes: a PaddleJob for each hour.

    Each stage that has ended is a line of JSON. Killed and started again, it goes on where it was.

    Example: clickline train-window /job/training.yaml
    """
    from clickline.deploy.training_plan import read_plan
    from clickline.deploy.training_window import TrainingWindow
    from clickline.launch.kubernetes.cluster_access import find_cluster
    from clickline.launch.kubernetes.cluster_client import ClusterClient
    from clickline.processes.child import stopped_by_signals
    from clickline.processes.logs import set_up
    from clickline.progress import LogOnly

    set_up("training", 0)
    logging.getLogger("httpx").setLevel(logging.WARNING)  # a line for each look at a job would hide the rest
    with stopped_by_signals(), ClusterClient(find_cluster()) as client:
        read = read_plan(plan)
        TrainingWindow(read, client, watcher=LogOnly(), emit=lambda one: print(json.dumps(one), flush=True)).run()
