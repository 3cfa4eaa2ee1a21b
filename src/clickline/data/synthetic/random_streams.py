"""Where random numbers come from: every block of rows has a stream of its own, so that it can be drawn alone."""

from __future__ import annotations

import numpy as np

from clickline.errors import DataError

BLOCK = 8192
"""Rows drawn from one stream. Part of what a seed means: changing it changes every log."""


def stream(*, seed: int, purpose: int, number: int = 0) -> np.random.Generator:
    """The stream for one purpose (the true model, a sample, rows) and one block."""
    if seed < 0:
        raise DataError(f"seed is {seed}, but must be 0 or more")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, purpose, number])))
