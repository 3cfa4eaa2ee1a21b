"""The command line: one file per verb, put together in application.py."""

from __future__ import annotations

import atexit
import gc
import os
import sys

from clickline.processes.child import live_no_longer_than_parent


def _skip_collection_at_exit() -> None:
    """Leave PyTorch's many objects uncollected when the interpreter ends.

    Collecting them takes a second or more, in which a process that was told to stop is not gone; memory goes back to
    the system anyway. Not with Triton, which CUDA builds of PyTorch load to export a network: its bindings print a page
    about leaks for everything that is left.
    """
    if "triton" not in sys.modules:
        gc.freeze()


def main() -> None:
    """The entry point."""
    from clickline.cli.application import VERBS, application

    # Read when PyTorch loads. Its threads would else spin while they wait, which starves the threads that parse and, on
    # a busy machine, each other: docs/decisions/0004-threads-that-wait-sleep.md has the figures.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    atexit.register(_skip_collection_at_exit)
    live_no_longer_than_parent()
    # What is no verb may be an option, or a misspelt one, for which all are needed.
    verb = sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] in VERBS else None
    application(verb)(prog_name="clickline")
