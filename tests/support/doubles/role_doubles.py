"""In place of what a role runs: says what it was given, then waits to be stopped."""

from __future__ import annotations

import logging
import time
from typing import Any

given: list[tuple[Any, Any]] = []
options: list[dict[str, Any]] = []


def remember(job: Any, place: Any, **named: Any) -> None:
    given.append((job, place))
    options.append(named)


def wait(job: Any, place: Any, **_options: Any) -> None:
    try:
        logging.getLogger("clickline.anything").info("%s runs %s", place.name, job.name)
        time.sleep(600)
    finally:
        logging.getLogger("clickline.anything").info("cleaned up")
