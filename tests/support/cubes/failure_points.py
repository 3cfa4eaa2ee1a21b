"""Failure points of a delivery, and which process dies at each."""

from __future__ import annotations

from clickline.files import failpoints

POINTS = [(name, ("delta", "base")[n % 2]) for n, name in enumerate(failpoints.DELIVERING)]
"""Bases and deltas take the same steps, so each step is tried with one of them."""
WHO = {"builder": "transfer", "transfer": "transfer", "agent": "agent.0_0", "cube": "cube.0_0"}
