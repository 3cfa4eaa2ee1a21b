"""The termination message of a container: what a run came to, in the file that Kubernetes keeps of one that has ended.

Whoever watches pods reads it there, without having asked at the right moment and without seeing the run's directory.
It is one JSON object, to which parts of the process add what they know, of at most 4096 bytes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from clickline.files.typed_json import decode_json

VARIABLE = "CLICKLINE_TERMINATION_LOG"
_MOST_BYTES = 4096
log = logging.getLogger("clickline.processes")


def add_to_termination_message(values: Mapping[str, object]) -> bool:
    """Add to the message, if the environment names a file for it; false if there is no more room."""
    path = os.environ.get(VARIABLE, "").strip()
    if not path:
        return True
    file = Path(path)
    content = msgspec.json.encode({**_message_in(file), **values})
    if len(content) > _MOST_BYTES:
        return False
    try:
        file.write_bytes(content)
    except OSError as error:  # a run that is done must not fail for the sake of it
        log.warning("%s: what the run came to cannot be written there: %s", file, error)
    return True


def read_termination_message(text: str) -> dict[str, Any]:
    """What a container has left; nothing if it is no message of ours."""
    try:
        return decode_json(text.encode(), dict[str, Any])
    except msgspec.MsgspecError:
        return {}


def _message_in(file: Path) -> dict[str, Any]:
    try:
        return read_termination_message(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
