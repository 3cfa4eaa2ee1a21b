"""Hooks of a submission as they are generated, and the names of all files that are."""

from __future__ import annotations

from clickline.compat.paddlerec.submission.job_script import NAME as JOB_SCRIPT

BEFORE, AFTER = "before_hook.sh", "end_hook.sh"
CONFIG = "config.ini"
MANIFESTS = "kubernetes.yaml"
RESERVED = (CONFIG, JOB_SCRIPT, MANIFESTS)
"""Names that files of the user's own must not have. Hooks may be theirs: none is generated then."""
_BEFORE = """\
#!/bin/sh
# Runs once on each node before training, in the directory that has the files of this folder. If it fails, the job does.
# Nodes have Clickline already: put here what the job needs beside it, such as `pip install …`.
echo "Run before_hook.sh ..."

echo "End before_hook.sh ..."
"""
_AFTER = """\
#!/bin/sh
# Runs once on each node when training has ended well, in the directory that has the files of this folder.
# On the first node, ./output is the run: checkpoints, metrics, result.json. If it fails, the job does.
echo "Run end_hook.sh ..."

echo "End end_hook.sh ..."
"""


def generated_hooks() -> dict[str, str]:
    """By their names."""
    return {BEFORE: _BEFORE, AFTER: _AFTER}
