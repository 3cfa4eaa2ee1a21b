"""The last status of a run in a pod, left where Kubernetes keeps it."""

from __future__ import annotations

from collections.abc import Mapping

from clickline.processes.termination_message import add_to_termination_message

_KEYS = (
    "phase",
    "epoch",
    "epochs",
    "step",
    "rows",
    "rows_per_second",
    "loss",
    "auc",
    "rmse",
    "test",
    "progress",
    "seconds_left",
)


def leave_final_status(status: Mapping[str, object]) -> None:
    """Leave the status of a run that has finished; why one has failed is told by others."""
    if status["phase"] == "finished":
        add_to_termination_message({key: status[key] for key in _KEYS})
