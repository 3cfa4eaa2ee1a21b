"""The command line with one mechanism switched off, so that a test can show what it is for: FAULT names which."""

from __future__ import annotations

import os
import signal
import sys


def switch_off(what: str) -> None:
    if what == "pause":  # cuts are taken while trainers go on
        from clickline.ps.coordinator.state import Affairs

        Affairs.all_still = lambda self: not self._dead
        Affairs.pause = lambda self: None
    elif what == "once":  # a push that is sent again is applied again
        from clickline import _native

        careful = _native.WireServer

        def forgetful(*given, **named):
            return careful(*given, **{**named, "once": False})

        _native.WireServer = forgetful
    elif what == "round":  # a server that has gone back dies before it knows who takes part in the next step
        from clickline.ps.server.server import ParameterServer

        begin = ParameterServer._do_round

        def die(self, facts, arrays):
            if self.generation > 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return begin(self, facts, arrays)

        ParameterServer._do_round = die
    else:
        sys.exit(f"no mechanism {what!r}")


if __name__ == "__main__":
    switch_off(os.environ["FAULT"])
    from clickline.cli import main

    main()
