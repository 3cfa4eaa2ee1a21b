"""Stand-in."""

from __future__ import annotations

from typing import Any

FeatureReader = Any
