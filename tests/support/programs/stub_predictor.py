"""`clickline serve` as processes, with a predictor that computes nothing. This file is the command of both:

python stub_predictor.py serve CONFIG READY                the parent
python stub_predictor.py worker DIRECTORY RANK DESCRIPTOR  one worker
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

from clickline.launch.predictor_processes import serve, worker_main
from clickline.processes.logs import set_up
from clickline.serve.metrics.counters import Counters
from clickline.serve.prediction import PredictionInput
from clickline.serve.serve_settings import ServeConfig
from support.doubles.serving_doubles import StubPredictor


class SlowPredictor(StubPredictor):
    """Takes twenty milliseconds for whatever waits, and a moment until it has a version."""

    def __init__(self, *, counts: Counters) -> None:
        super().__init__(counts=counts)
        self.missing = True
        threading.Timer(0.3, self._found).start()

    def _found(self) -> None:
        self.missing = False

    def submit(self, chosen: Any, question: PredictionInput, *, done: Any, **_: Any) -> None:
        def late(answer: Any) -> None:
            time.sleep(0.02)
            done(answer)

        super().submit(chosen, question, done=late)


def make(_config: ServeConfig, _token: bytes | None, counts: Counters) -> Any:
    return SlowPredictor(counts=counts)


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker_main(sys.argv[2:], make=make)
    else:
        set_up("serve", 0)
        config = ServeConfig.model_validate_json(Path(sys.argv[2]).read_bytes())
        host, _, port = config.listen.rpartition(":")
        serve(
            config,
            host=host,
            port=int(port),
            ready=Path(sys.argv[3]),
            make=make,
            worker=[sys.executable, __file__, "worker"],
        )
