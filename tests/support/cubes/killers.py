"""Kills servers and agents of one shard at random, one replica at a time, and starts them again."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from collections import Counter

from clickline.cube.server.cube_commands import CubeCommands
from clickline.errors import PeerError
from support.cubes.cube_processes import NAME, TOKEN, CubeProcesses
from support.eventually import eventually

_UNTIL_NEXT = (0.3, 2.0)
_DEAD_FOR = (0.0, 1.0)


def switch_number(cube: CubeProcesses, name: str) -> int:
    """Of the version that a server serves; 0 if it serves none or does not answer."""
    shard, _, copy = name.partition("_")
    address = cube.servers[int(shard)][int(copy)]
    try:
        with CubeCommands(address, name=NAME, token=TOKEN.encode(), patience=0.0, deadline=2.0) as server:
            return int(server.call("status")["number"])
    except PeerError:
        return 0


class Killing(threading.Thread, ABC):
    """Kills something now and then until it is told to end; what goes wrong with that is told then."""

    def __init__(self, *, seed: object, until_next: tuple[float, float], **counts: int) -> None:
        super().__init__(daemon=True)
        self._random, self._until_next = random.Random(str(seed)), until_next
        self._over = threading.Event()
        self.counts: Counter[str] = Counter(counts)
        self.trouble = ""

    def run(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(*self._until_next)):
                self._kill_one()
        except BaseException as error:
            self.trouble = repr(error)
            raise

    @abstractmethod
    def _kill_one(self) -> None: ...

    def end(self) -> None:
        """What it killed lives again after this."""
        self._over.set()
        self.join()
        assert not self.trouble, self.trouble


class Killer(Killing):
    """One for each shard: so one replica of each may be dead at the same time, but never both of one."""

    def __init__(self, cube: CubeProcesses, shard: int, *, seed: int) -> None:
        super().__init__(seed=f"{seed} {shard}", until_next=_UNTIL_NEXT, servers_killed=0, agents_killed=0)
        self._cube = cube
        self._names = [name for name in cube.names if name.startswith(f"{shard}_")]

    def _kill_one(self) -> None:
        victim = self._random.choice(self._names)
        roles = self._random.choice([("cube",), ("agent",), ("cube", "agent")])
        eventually(self._all_up, what=f"all of {', '.join(self._names)} up to date before {victim} is killed")
        for role in roles:
            self._cube.kill(f"{role}.{victim}")
            self.counts["servers_killed" if role == "cube" else "agents_killed"] += 1
        self._over.wait(self._random.uniform(*_DEAD_FOR))
        for role in roles:
            self._cube.start(f"{role}.{victim}", ready=False)
        for role in roles:
            self._cube.await_ready(f"{role}.{victim}")
            assert not self._cube.ended(f"{role}.{victim}"), f"{role}.{victim} did not start again"

    def _all_up(self) -> bool:
        """A replica that has not caught up yet is no help to anybody: then the other must live."""
        numbers = [switch_number(self._cube, name) for name in self._cube.names]
        mine = [switch_number(self._cube, name) for name in self._names]
        return min(mine) == max(numbers) > 0
