"""What a runner does on its node before the processes of a job start, and after they have ended: a plan's `steps`.

A script runs in the directory of the processes, with its output in the job's log; files are fetched there. Whatever
fails ends the job, with the script's exit code and last lines, or with the file that could not be had. When a runner
is started anew, after its connection was lost, what was done before is not done again.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clickline.compat.paddlerec.running.saved_epochs import epoch_checkpoints, link
from clickline.errors import PeerError
from clickline.launch.hosts.host_messages import HostPlan, NodeSteps
from clickline.launch.hosts.node_files import copy_to, fetch
from clickline.processes.logs import tail

_SHOWN = 5
"""Last lines of a script that tell why it failed."""
_PREPARED = ".prepared"


class NodeWork:
    """The steps of one plan; nothing, if it has none."""

    def __init__(self, plan: HostPlan, *, stopped: Callable[[], bool]) -> None:
        """`stopped` is called again and again while something runs: whether to give up."""
        self._plan, self._steps, self._stopped = plan, plan.steps or NodeSteps(), stopped
        self._place = Path(plan.workspace or plan.directory)

    @property
    def logs(self) -> dict[str, Path]:
        """Of the scripts, by the names that they have in the log of the job."""
        return {Path(script).stem: self._log(script) for script in (self._steps.before, self._steps.after) if script}

    def prepare(self) -> bool:
        """Everything before the processes; False if it was given up. Raises PeerError."""
        done = Path(self._plan.directory) / _PREPARED
        if self._plan.steps is None or done.exists():
            return True
        if self._steps.before and not self._run(self._steps.before):
            return False
        try:
            for each in self._steps.fetches:
                if not fetch(each, self._place, self._steps, stopped=self._stopped):
                    return False
            # Last of all: a runner that dies while it fetches leaves no mark, and the next one begins anew.
            done.touch()
        except OSError as error:
            raise PeerError(f"{self._place} cannot be prepared: {error}") from None
        return True

    def finish(self) -> bool:
        """Everything after the processes; False if it was given up. Raises PeerError."""
        if self._steps.epoch_links and self._plan.output:
            for epoch, checkpoint in epoch_checkpoints(Path(self._plan.output)).items():
                link(self._place / self._steps.epoch_links / str(epoch), checkpoint)
        if self._steps.after and not self._run(self._steps.after):
            return False
        if self._steps.upload and self._plan.output:
            return copy_to(self._steps.upload, Path(self._plan.output), self._steps, stopped=self._stopped)
        return True

    def _log(self, script: str) -> Path:
        return Path(self._plan.directory) / "log" / f"{Path(script).stem}.log"

    def _run(self, script: str) -> bool:
        log = self._log(script)
        log.parent.mkdir(parents=True, exist_ok=True)
        number = self._plan.environment.get("CLICKLINE_NODE", str(self._steps.node))
        environment = {**os.environ, **self._steps.environment, "CLICKLINE_NODE": number}
        with log.open("ab") as out:
            try:
                process = subprocess.Popen(
                    _command(self._place / script),
                    cwd=self._place,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # it is ended with all that it has started
                )
            except OSError as error:
                raise PeerError(f"{script} cannot be run: {error}") from None
        try:
            while process.poll() is None:
                if self._stopped():
                    return False
        finally:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            said = " / ".join(line.strip() for line in tail(log, _SHOWN) if line.strip()) or "it said nothing"
            raise PeerError(f"{script} failed with exit code {process.returncode}: {said}; its log is {log}")
        return True


def _command(script: Path) -> list[str]:
    """A script is run by the program that its first line names, whether it is executable or not; else by sh."""
    try:
        with script.open("rb") as file:
            first = file.readline(256).decode(errors="replace")
    except OSError as error:
        raise PeerError(f"{script} cannot be read: {error}") from None
    named = shlex.split(first[2:]) if first.startswith("#!") else []
    return [*(named or ["sh"]), str(script)]
