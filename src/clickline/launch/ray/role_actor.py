"""On a node of a Ray cluster: one role of a job as a real process, with the runner that all launchers share.

Ray makes the actor; it passes plans and reports on as lines of JSON. When the actor ends, however that comes about, the
kernel ends the role's process too (`processes/child.py`).
"""

from __future__ import annotations

import io
import os
import queue
import random
import socket
import threading
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from clickline.errors import PeerError
from clickline.files.typed_json import decode_json
from clickline.launch.hosts.data_view import DataView, view_data
from clickline.launch.hosts.host_messages import HostPlan, RunnerDone, RunnerFailed, line_of
from clickline.launch.hosts.host_runner import run_plan
from clickline.launch.hosts.launcher_watch import LauncherLost
from clickline.launch.hosts.workspace_archive import unpack
from clickline.launch.ray.ray_cluster import import_ray

_LOWEST, _HIGHEST = 20000, 32000
"""Ports: below those that Linux gives to outgoing connections."""
_TRIES = 2000
_WAITING_LINES = 1000
_LINES_AT_ONCE = 200
JOB_FILE = "job.yaml"


class RolePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where an actor has come to be."""

    node: str
    address: str
    clickline: str
    """Version of the package there."""
    directory: str
    """The role's own."""
    port: int = 0
    """One to listen on, if it was asked for."""
    data: DataView = DataView()
    """What is seen there of the job's data."""


class ReportQueue(io.RawIOBase):
    """What a runner reports, a line at a time, until the launcher asks for it.

    A runner whose reports nobody takes for long hears that its launcher is gone.
    """

    def __init__(self, *, patience: float) -> None:
        self._lines: queue.Queue[bytes] = queue.Queue(_WAITING_LINES)
        self._patience = patience
        self._failure = ""

    def fail(self, reason: str) -> None:
        """Let whoever asks for reports from now on fail: there will be none."""
        self._failure = reason

    def write(self, line: Any) -> int:
        try:
            self._lines.put(bytes(line), timeout=self._patience)
        except queue.Full:
            # As if a pipe had closed: the runner knows no other way in which a launcher is lost.
            raise BrokenPipeError("nobody has asked for reports") from None
        return len(line)

    def take(self, *, wait: float) -> list[bytes]:
        """The next lines; none if there are none within so many seconds. Raises PeerError after `fail`."""
        if self._failure:
            raise PeerError(self._failure)
        lines: list[bytes] = []
        try:
            lines.append(self._lines.get(timeout=wait))
            while len(lines) < _LINES_AT_ONCE:
                lines.append(self._lines.get_nowait())
        except queue.Empty:
            pass
        return lines


class RoleActor:
    """One role of a job. Ray calls its methods from several threads; `take_reports` waits in one of them."""

    def __init__(self, name: str, silence: float) -> None:
        self._name = name
        self._reports = ReportQueue(patience=silence)
        read, self._commands = os.pipe()
        self._command_file = os.fdopen(read, "rb")
        self._reserved: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        """As Ray's dashboard shows it."""
        return self._name

    def prepare(self, root: str, archive: bytes, job_text: str, port: int, paths: list[str]) -> bytes:
        """Make the role's directory, with the workspace in it, reserve a port (-1: none, 0: any), and look for data."""
        ray = import_ray()
        directory = Path(root).expanduser().absolute() / self._name
        directory.mkdir(parents=True, exist_ok=True)
        unpack(archive, directory)
        (directory / JOB_FILE).write_text(job_text, encoding="utf-8")
        address = ray.util.get_node_ip_address()
        if port >= 0:
            self._reserved = _reserved(address, port)
        return msgspec.json.encode(
            RolePlace(
                node=ray.get_runtime_context().get_node_id(),
                address=address,
                clickline=version("clickline"),
                directory=str(directory),
                port=self._reserved.getsockname()[1] if self._reserved else 0,
                data=view_data(paths, directory=directory),
            )
        )

    def start(self, plan: bytes) -> None:
        """Run a plan; its end is the last report."""
        # At the last moment: between this and the role's own bind another process could take the port.
        if self._reserved is not None:
            self._reserved.close()
        # A thread that lives as long as the process that it starts, which Linux ends with it.
        self._thread = threading.Thread(
            target=self._run, args=(decode_json(plan, HostPlan),), name="clickline-runner", daemon=True
        )
        self._thread.start()

    def _run(self, plan: HostPlan) -> None:
        try:
            run_plan(plan, commands=self._command_file, reports=cast(BinaryIO, self._reports))
        except LauncherLost as error:
            # A launcher that is heard again makes another actor in the place of this one.
            self._reports.fail(str(error))
        except Exception as error:
            self._reports.write(line_of(RunnerFailed(f"the runner failed: {error!r}")))
            self._reports.write(line_of(RunnerDone()))

    def send(self, line: bytes) -> None:
        """Pass a message of the launcher on to the runner."""
        os.write(self._commands, line)

    def take_reports(self, wait: float) -> list[bytes]:
        """Lines of the runner."""
        return self._reports.take(wait=wait)


def _reserved(address: str, port: int) -> socket.socket:
    """A socket that holds a port until the role's process wants it: other actors on this node choose theirs now."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    candidates = [port] if port else [random.randint(_LOWEST, _HIGHEST) for _ in range(_TRIES)]
    reason = ""
    for candidate in candidates:
        holder = socket.socket(family, socket.SOCK_STREAM)
        try:
            holder.bind((address, candidate))
            return holder
        except OSError as error:
            holder.close()
            reason = f"port {candidate} of {address} cannot be had: {error}"
    raise OSError(reason)
