"""Where `clusters` is found, also if only these tests run."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "dying"))
