"""Programs that tests start as processes of their own, by the path of their file."""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parent
