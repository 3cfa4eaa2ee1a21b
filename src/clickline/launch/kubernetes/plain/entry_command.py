"""Runs the command of a pod, ENTRY, with the environment that was found; says why it failed where Kubernetes looks."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from clickline.processes.exit_reasons import in_words

MESSAGE_FILE = Path("/dev/termination-log")
"""What a container writes there, Kubernetes shows as the reason of its end."""
_GRACE = 25.0
"""Seconds for the command after a signal, less than what Kubernetes gives a pod."""


def package_environment(package: str, env: Mapping[str, str]) -> dict[str, str]:
    """PYTHONPATH with TRAINER_PACKAGE in front."""
    parts = [package, *filter(None, env.get("PYTHONPATH", "").split(os.pathsep))]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(parts))}


def run_entry(entry: str, env: Mapping[str, str], *, directory: str | None = None, message_file: Path) -> int:
    """Run a command by the shell; its exit code, as a shell would say it. An interrupt reaches all its processes."""
    process = subprocess.Popen(  # noqa: S603  (the command of the pod itself)
        ["/bin/sh", "-c", entry], env=dict(env), cwd=directory, start_new_session=True
    )
    try:
        code = process.wait()
    except KeyboardInterrupt:
        _stop(process)
        raise
    if code:
        write_reason(f"ENTRY ended, {in_words(code)}", message_file)
    return code if code >= 0 else 128 - code


def write_reason(text: str, message_file: Path) -> None:
    """Leave a reason for Kubernetes, if this is a container."""
    if message_file.exists():
        with suppress(OSError):
            message_file.write_text(text, encoding="utf-8")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return
