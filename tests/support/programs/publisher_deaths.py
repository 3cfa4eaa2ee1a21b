"""Publishes once per failure point, each time in a process that dies there; prints what the store looks like after."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from clickline.files import failpoints
from clickline.publish import publisher
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.publish.publisher import Settings, publish
from clickline.versions import donefile
from clickline.versions.store import open_store


def main(checkpoint: Path, place: Path) -> None:
    torch.set_num_threads(1)
    store = open_store(place)
    # What takes longest, importing PyTorch and exporting, is done once, before the forks: all publish one checkpoint.
    network = publisher.export(open_checkpoint_source(checkpoint, threads=1).learner)
    publisher.export = lambda learner: network
    for point in failpoints.PUBLISHING:
        child = os.fork()
        if child == 0:
            os.environ[failpoints.VARIABLE] = point
            publish(checkpoint, store, Settings(kind="delta", sample_rows=16))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        done = donefile.read(store)
        torn = not (place / donefile.DONEFILE).read_bytes().endswith(b"\n")
        facts = {"point": point, "signal": os.WTERMSIG(status), "last": done.last, "serving": done.serving}
        print(json.dumps({**facts, "torn": torn, "names": store.names()}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
