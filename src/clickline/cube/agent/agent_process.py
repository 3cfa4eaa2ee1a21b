"""The agent's process: an agent, its HTTP and the lock of its directory."""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack

from clickline.cube.agent.agent import Agent, AgentOptions
from clickline.cube.agent.agent_api import AgentRoutes, agent_app
from clickline.files.directory_lock import DirectoryLock
from clickline.files.json_state import write_state
from clickline.net.tokens import BearerToken
from clickline.net.web_server import WebServer
from clickline.processes.heartbeats.heartbeat import BEAT_EVERY, Heartbeat

log = logging.getLogger("clickline.agent")


class AgentProcess:
    """An agent that listens."""

    def __init__(self, options: AgentOptions, *, routes: AgentRoutes | None = None) -> None:
        """`routes` makes further HTTP routes, such as Cube's."""
        guard = BearerToken(token=options.token, host=options.host, open_to_all=options.open_to_all)
        with ExitStack() as opening:
            # Before the agent is made, which removes unfinished downloads: they could be those of another agent.
            self._lock = DirectoryLock(options.deploy, "agent")
            opening.callback(self._lock.release)
            self.agent = Agent(options)
            app = agent_app(self.agent, guard=guard, routes=routes)
            self.web = WebServer(app, host=options.host, port=options.port)
            opening.pop_all()
        self.stopped = threading.Event()
        log.info("listens at %s", self.web.address)
        if options.ready is not None:
            write_state(options.ready, {"pid": os.getpid(), "http": self.web.address})

    def wait(self, heartbeat: Heartbeat) -> None:
        while not self.stopped.wait(BEAT_EVERY):
            if self.web.turned():
                heartbeat.beat()

    def close(self) -> None:
        self.web.close()
        self.agent.close()
        self._lock.release()
