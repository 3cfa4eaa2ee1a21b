"""The counts that tests print at their end, also as JSON: in the file that CLICKLINE_TEST_COUNTS names, if it is set.

docs/robustness.md is made from it (tests/support/summaries/robustness_table.py).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

VARIABLE = "CLICKLINE_TEST_COUNTS"


def write_counts(section: str, counts: Mapping[str, Any]) -> None:
    """Put a section into the file; the others in it stay."""
    name = os.environ.get(VARIABLE)
    if not name:
        return
    file = Path(name)
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        known = {}
    known[section] = counts
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f".{file.name}.new")
    aside.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    aside.replace(file)
