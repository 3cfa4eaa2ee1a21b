"""An explained job: every key with its value, defaults and overrides applied, and where the value came from.

References such as ${env:NAME} are shown as they are. Nothing here looks into the environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clickline.config.job import Job
from clickline.config.loading.origins import key_text, leaves

_IN_LIST = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class Row:
    """One leaf key of a job."""

    key: str
    value: Any
    origin: str

    @property
    def shown(self) -> str:
        """The value as it would stand in the file."""
        if self.value == "":
            return '""'
        return self.value if isinstance(self.value, str) else json.dumps(self.value, ensure_ascii=False)


def rows(job: Job, origins: Mapping[str, str], *, everything: bool = False) -> list[Row]:
    """Every leaf key, in the order of definition. `origins` are those of a LoadedJob; {} for a job made in Python.

    The elements of `features.slots` and `features.dense` show what was given only, as a thousand slots have ten
    thousand defaults; `everything` shows those as well.
    """
    found = []
    for path, value in leaves(job):
        key = key_text(path)
        origin = origins.get(key, "default")
        if everything or origin != "default" or not _IN_LIST.search(key):
            found.append(Row(key, value, origin))
    return found
