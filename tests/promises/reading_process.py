"""A process with several readers over one client. Ends when its input does; prints what they came to."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clickline.cube.client import Cube
from cube_readers import BatchReader, Known
from version_stores import keys_from


def main(settings: dict[str, object]) -> None:
    known = Known.of_files(Path(str(settings["expected"])), highest=int(str(settings["highest"])))
    token = str(settings["token"]).encode()
    with Cube.connect(settings["servers"], name=str(settings["name"]), token=token, timeout=5.0) as cube:  # type: ignore[arg-type]
        readers = [
            BatchReader(
                lambda keys: cube.get("embedding", keys),
                known,
                pool=keys_from(1, known.highest + 1),
                always=keys_from(1, int(str(settings["clock"])) + 1),
                seed=seed,
                pause=0.006,
            )
            for seed in settings["seeds"]  # type: ignore[attr-defined]
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
                "client": cube.counts(),
            }
            for reader in readers
        ]
        print(json.dumps(told))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
