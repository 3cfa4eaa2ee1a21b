"""`clickline.scale`: another number of shards or replicas for a suite that serves, without a request unanswered."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from clickline.errors import JobError, PeerError
from clickline.launch.scaling.scale_file import (
    MOST_REPLICAS,
    MOST_SHARDS,
    DesiredSize,
    ScaleFile,
    ScalePhase,
    ScaleRecord,
)
from clickline.launch.suite_state import is_up, read_suite

_LOOK_EVERY = 0.1


def scale(
    state: str | Path = "runs",
    *,
    shards: int | None = None,
    replicas: int | None = None,
    timeout: float = 600.0,
    on_progress: Callable[[ScaleRecord], None] = lambda _: None,
) -> ScaleRecord:
    """Bring the cube of the suite in a state directory to another size, and wait until it has it.

    What is not given stays. The suite itself does the work, so it goes on if this is interrupted or `timeout` seconds
    are over. Raises JobError for a size that cannot be, PeerError if no suite serves there or it does not get there.
    """
    directory = Path(state)
    before = _record(directory)
    if before["phase"] != ScalePhase.DONE.value:
        raise PeerError(
            f"the suite in {state} is being scaled already, it is {before['phase']}; wait until that is done"
        )
    desired = DesiredSize.new(
        shards=_checked("shards", before["shards"] if shards is None else shards, MOST_SHARDS),
        replicas=_checked("replicas", before["replicas"] if replicas is None else replicas, MOST_REPLICAS),
    )
    ScaleFile(directory).write(desired)
    give_up = time.monotonic() + timeout
    while True:
        record = _record(directory)
        if record["id"] == desired.id:
            on_progress(record)
            if record["phase"] == ScalePhase.DONE.value:
                return record
        if time.monotonic() > give_up:
            how = record["phase"] if record["id"] == desired.id else "has not begun"
            raise PeerError(f"the suite in {state} did not get there within {timeout:g} s: {how}; it goes on with it")
        time.sleep(_LOOK_EVERY)


def _record(state: Path) -> ScaleRecord:
    suite = read_suite(state) if is_up(state) else None
    scale = (suite or {}).get("scale")
    if scale is None:
        raise PeerError(f"no suite serves in {state}; `clickline up --state {state}` starts one")
    return scale


def _checked(name: str, value: int, most: int) -> int:
    if not 1 <= value <= most:
        raise JobError(f"{name} must be 1 to {most} but got {value!r}")
    return value
