"""Failpoints: names of points where a test can kill the process, between any two steps of a delivery or a save.

`CLICKLINE_FAIL_AT=publish.before-rename` makes the process kill itself with SIGKILL when it gets there, `…:3` when it
gets there for the third time. Every point is registered in NAMES, so that a test which goes through all of them cannot
miss one. This module imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "CLICKLINE_FAIL_AT"
PUBLISHING = (
    "publish.rows-written",
    "publish.network-written",
    "publish.before-rename",
    "publish.after-rename",
    "publish.donefile-half",
    "publish.done",
)
"""In the order in which a publisher passes them."""
DELIVERING = (
    "builder.cleaning",
    "builder.checked",
    "builder.cut",
    "builder.packed",
    "builder.before-rename",
    "builder.built",
    "transfer.chosen",
    "transfer.fetched",
    "transfer.built",
    "transfer.downloaded",
    "transfer.loaded",
    "transfer.numbered",
    "transfer.switched",
    "transfer.tidying",
    "transfer.finished",
    "agent.cleaning",
    "agent.download-begun",
    "agent.download-half",
    "agent.before-rename",
    "agent.downloaded",
    "agent.loading",
    "agent.enabling",
    "agent.enabled",
    "cube.loading",
    "cube.loaded",
    "cube.before-switch",
    "cube.noted",
    "cube.switched",
    "cube.trimming",
    "cube.compacting",
    "cube.compact-written",
    "cube.compacted",
    "cube.trimmed",
)
"""In the order in which a delivery passes them."""
RESHARDING = ("transfer.layouts-noted", "transfer.joining", "transfer.joined")
"""In the order in which transfer passes them when a layout was added."""
TRAINING = (
    "checkpoint.begun",
    "checkpoint.tables-written",
    "checkpoint.dense-written",
    "checkpoint.manifest-written",
    "checkpoint.replaced-aside",
    "checkpoint.in-place",
    "checkpoint.replaced-half-removed",
    "checkpoint.done",
    "checkpoint.prune-aside",
    "checkpoint.prune-half-removed",
    "checkpoint.pruned",
    "standing.written",
    "standing.epoch-ended",
    "standing.renamed",
)
"""In the order in which a checkpoint that replaces one of the same step is written, and others are removed after it;
those of `standing` are passed by a coordinator whenever it notes where the run stands."""
UPLOADING = (
    "upload.begun",
    "upload.file-sent",
    "upload.files-sent",
    "upload.done",
    "upload.marker-removed",
    "upload.removed",
)
"""In the order in which a checkpoint of a run at a URL is uploaded, and an older one removed there."""
OPERATING = (
    "operator.before-status",
    "operator.status-written",
    "operator.created-one",
    "operator.created-stage",
    "operator.endpoints-published",
    "operator.deleted-one",
    "operator.job-expired",
)
"""In the order in which the operator passes them for a job that runs, restarts and expires."""
NAMES: dict[str, int] = dict.fromkeys((*PUBLISHING, *DELIVERING, *RESHARDING, *TRAINING, *UPLOADING, *OPERATING), 0)
"""Every failpoint, and how often this process has reached it. Only counted while the variable is set."""


def reach(name: str) -> None:
    """Note that this process has reached a failpoint, and kill it if the variable says so."""
    # Also while the variable is not set, so that any test which passes a misspelt point fails.
    if name not in NAMES:
        raise ValueError(f"there is no failure point {name!r}; known: {', '.join(sorted(NAMES))}")
    wanted = os.environ.get(VARIABLE, "")
    if not wanted:
        return
    NAMES[name] += 1
    point, _, times = wanted.partition(":")
    if point == name and NAMES[name] == int(times or "1"):
        os.kill(os.getpid(), signal.SIGKILL)
