"""The command line with one mechanism switched off, so that a test can show what it is for: FAULT names which."""

from __future__ import annotations

import os
import signal
import sys


def switch_off(what: str) -> None:
    if what == "pause":  # cuts are taken while trainers go on
        from clickline.ps.coordinator.state.run_state import RunState

        RunState.all_idle = lambda self: not self.failures.orphaned
        RunState.pause = lambda self: None
    elif what == "once":  # a push that is sent again is applied again
        from clickline import _native

        careful = _native.WireServer

        def forgetful(*given, **named):
            return careful(*given, **{**named, "once": False})

        _native.WireServer = forgetful
    elif what == "round":  # a server that has gone back dies before it knows who takes part in the next step
        from dataclasses import replace

        from clickline.ps.server.operations import OPERATIONS, begin_round

        def die(server, request, arrays):
            if server.generation > 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return begin_round(server, request, arrays)

        OPERATIONS["round"] = replace(OPERATIONS["round"], execute=die)
    else:
        sys.exit(f"no mechanism {what!r}")


if __name__ == "__main__":
    switch_off(os.environ["FAULT"])
    from clickline.cli import main

    main()
