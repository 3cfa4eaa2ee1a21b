"""A process with several readers: some share one client, one makes a new client again and again, as programs that start
do. Ends when its input does; prints what they came to."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clickline.cube.cube_client import Cube, CubeAnswer
from support.cubes.cube_readers import BatchReader, Keys, Known
from support.versions.version_stores import keys_from

TABLE = "embedding"
_BATCHES = 20
"""That a new client reads before the next takes its place."""


class Renewed:
    """Reads with clients that know nothing of what came before them."""

    def __init__(self, connect: Callable[[], Cube]) -> None:
        self._connect, self._cube, self._left = connect, connect(), _BATCHES

    def get(self, keys: Keys) -> CubeAnswer:
        if not self._left:
            self._cube.close()
            self._cube, self._left = self._connect(), _BATCHES
        self._left -= 1
        return self._cube.get(TABLE, keys)


def main(settings: dict[str, Any]) -> None:
    known = Known.of_files(Path(settings["expected"]), highest=settings["highest"])

    def connect() -> Cube:
        return Cube.connect(settings["servers"], name=settings["name"], token=settings["token"].encode(), timeout=5.0)

    shared = connect()
    ways = [*([lambda keys: shared.get(TABLE, keys)] * (len(settings["seeds"]) - 1)), Renewed(connect).get]
    readers = [
        BatchReader(
            get,
            known,
            pool=keys_from(1, known.highest + 1),
            always=keys_from(1, settings["clock"] + 1),
            seed=seed,
            pause=0.006,
        )
        for get, seed in zip(ways, settings["seeds"], strict=True)
    ]
    for reader in readers:
        reader.start()
    sys.stdin.read()
    for reader in readers:
        reader.end()
    told = [
        {
            "counts": dict(reader.counts),
            "versions": sorted(reader.versions),
            "slowest": reader.slowest,
            "trouble": reader.trouble[:20],
        }
        for reader in readers
    ]
    print(json.dumps({"readers": told, "client": shared.counts()}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
