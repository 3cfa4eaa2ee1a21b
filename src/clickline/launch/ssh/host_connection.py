"""A connection to one host: its runner, started over ssh, and what it reports."""

from __future__ import annotations

import shlex
import subprocess
import threading
from contextlib import suppress
from typing import IO

import msgspec

from clickline.config.hosts import Host
from clickline.launch.hosts.host_messages import (
    LINE_LIMIT,
    HostPlan,
    LauncherMessage,
    RunnerDone,
    StopCommand,
    event_of,
    line_of,
)
from clickline.launch.hosts.runner_connection import ConnectionLost, EventQueue
from clickline.launch.ssh.ssh_client import failure, ssh_command

RUNNER = "clickline.launch.hosts.host_runner"
_LAST_WORDS = 4096


class HostConnection:
    """One try to run a host's plan. Events arrive in the queue, as pairs of node and event; the last one ends it."""

    def __init__(self, host: Host, plan: HostPlan, events: EventQueue) -> None:
        self.host, self._plan, self._events = host, plan, events
        command = f"cd {shlex.quote(plan.directory)} && exec {host.python} -m {RUNNER}"
        self._ssh = subprocess.Popen(
            ssh_command(host, command, silence=plan.silence),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl+C is for the launcher, which then stops the runners in order
        )
        self._said = b""
        self._threads = [
            threading.Thread(target=target, name=f"clickline-{host.host}", daemon=True)
            for target in (self._read_events, self._read_words)
        ]
        for thread in self._threads:
            thread.start()
        self.send(plan)

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None  # noqa: S101  (pipes were asked for)
        return pipe

    def stop(self) -> None:
        """Have the runner stop its processes and end."""
        self.send(StopCommand())

    def send(self, message: LauncherMessage | HostPlan) -> None:
        with suppress(OSError, ValueError):  # the thread that reads reports a connection that is lost
            self._pipe(self._ssh.stdin).write(line_of(message))
            self._pipe(self._ssh.stdin).flush()

    def close(self, *, within: float) -> bool:
        """Wait for the end of the connection; end it if it does not come. Whether it came by itself."""
        try:
            self._ssh.wait(within)
            by_itself = True
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
            by_itself = False
        for thread in self._threads:
            thread.join(5.0)
        for pipe in (self._ssh.stdin, self._ssh.stdout, self._ssh.stderr):
            with suppress(OSError):
                self._pipe(pipe).close()
        return by_itself

    def _read_events(self) -> None:
        done = False
        pipe = self._pipe(self._ssh.stdout)
        with suppress(OSError, ValueError):
            while line := pipe.readline(LINE_LIMIT):
                try:
                    event = event_of(line)
                except msgspec.MsgspecError:
                    continue  # something that a shell on the way has printed
                done = done or isinstance(event, RunnerDone)
                self._events.put((self._plan.node, event))
        code = self._ssh.wait()
        if not done:
            self._threads[1].join(1.0)
            self._events.put(
                (self._plan.node, ConnectionLost(failure(self.host, code, self._said.decode("utf-8", "replace"))))
            )

    def _read_words(self) -> None:
        pipe = self._pipe(self._ssh.stderr)
        with suppress(OSError, ValueError):
            while part := pipe.read1(_LAST_WORDS):  # type: ignore[attr-defined]
                self._said = (self._said + part)[-_LAST_WORDS:]
