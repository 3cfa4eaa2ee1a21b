"""`clickline operator` as a process, with the rights of its service account."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.eventually import eventually
from support.kubernetes.api_server import TestCluster


@contextmanager
def operator_process(
    cluster: TestCluster, log: Path, *options: str, fail_at: str = "", gentle: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    """An operator, which at the end is told to stop and must do so; one that is to kill itself is only waited for."""
    env = {**os.environ, "KUBECONFIG": str(cluster.operator_kubeconfig), "CLICKLINE_FAIL_AT": fail_at}
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "clickline", "operator", *options], stdout=out, stderr=out, env=env
        )
    try:
        yield process
        if gentle and not fail_at:
            assert process.poll() is None, f"the operator ended with {process.returncode}:\n{log.read_text()}"
            # A test that was over at once would else end it while Python still loads.
            eventually(lambda: _catches_sigterm(process.pid), process=None, what="an operator that can be told to stop")
            process.terminate()
            assert process.wait(timeout=60) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


def _catches_sigterm(pid: int) -> bool:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(fields["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1)
