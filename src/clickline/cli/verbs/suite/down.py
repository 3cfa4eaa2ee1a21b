"""`clickline down`: stops the suite that `clickline up` has started."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say


def down(
    state: Annotated[Path, typer.Argument(metavar="[STATE]", help="The directory that `up` was given.")] = Path("runs"),
    wait: Annotated[
        float, typer.Option(min=0, metavar="SECONDS", help="For it to stop by itself, before it is killed.")
    ] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Stop a running suite and wait until all of it is gone; what it made stays, and `clickline up` goes on from there.

    What a suite that was killed has left is cleared away. That none is running is not an error.

    Example: clickline down
    """
    from clickline.launch import suite_state

    began = time.monotonic()
    # Read first: a supervisor that stops by itself removes the file.
    record = suite_state.read_suite(state) or {}
    parts = [component for component in record.get("components", ()) if component.get("pid")]
    was_up = suite_state.is_up(state)
    by_itself = suite_state.stop(state, seconds=wait) if was_up else True
    left = suite_state.clear(state)
    seconds = round(time.monotonic() - began, 2)
    if as_json:
        print_json({"was_up": was_up, "by_itself": by_itself, "left": left, "seconds": seconds})
    elif was_up:
        how = "stopped" if by_itself else f"did not stop within {wait:g} s and was killed"
        say(f"the suite in {state}, process {record.get('pid')} with {len(parts)} parts, {how} ({seconds:.1f} s)")
    elif not left:
        say(f"no suite is up in {state}")
    if left and not as_json:
        say(f"cleared away what was left of one that was killed: {', '.join(left)}")
