"""Synthetic rows in the shape of PaddleRec's sample data: slot text with a click, 13 dense numbers and 26 sparse slots.

python -m clickline.compat.paddlerec.workspace_samples writes the sample data of the packaged workspaces; nothing in it
was ever logged. A click is likelier for some values than for others, so that there is something to learn.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from clickline.compat.paddlerec.translation.workspace_paths import PACKAGED

SLOTS, DENSE = 26, 13
_SIGNS = 1_000_000
"""Keys are below this, as PaddleRec's hash of Criteo's categories has them."""
_FILES = {"train": (1, 120), "test": (2, 60)}
"""Seed and rows of each part of the packaged sample data."""


def sample_rows(rows: int, *, seed: int, dense: str = "dense_feature") -> Iterator[str]:
    """Lines of slot text; the same for the same seed. `dense` is the name of the dense numbers."""
    draw = random.Random(seed)
    for _ in range(rows):
        numbers = [round(draw.betavariate(1, 8), 4) for _ in range(DENSE)]
        values = [min(int(draw.paretovariate(1.1)), 5 + 40 * slot) for slot in range(1, SLOTS + 1)]
        score = 3 * numbers[0] - 1 + sum(_weight(slot, value) for slot, value in enumerate(values, 1))
        clicked = draw.random() < 1 / (1 + math.exp(-score))
        tokens = [f"click:{int(clicked)}", *(f"{dense}:{number:g}" for number in numbers)]
        tokens += [f"{slot}:{sign(slot, value)}" for slot, value in enumerate(values, 1)]
        yield " ".join(tokens)


def sign(slot: int, value: int) -> int:
    """The key of a value: another one in every slot, since all slots share one table."""
    return (slot * 39_119 + value * 7_919) % _SIGNS + 1


def _weight(slot: int, value: int) -> float:
    """How much a value speaks for a click: only the first slots say something."""
    return math.sin(slot * 12.9898 + value * 78.233) if slot <= 4 else 0.0


def write_samples(workspace: Path) -> list[Path]:
    """Write the sample data of a workspace; gives back the files."""
    files = []
    for part, (seed, rows) in _FILES.items():
        file = workspace / "data" / "sample_data" / part / f"sample_{part}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(sample_rows(rows, seed=seed, dense="dense_var")) + "\n", encoding="ascii")
        files.append(file)
    return files


if __name__ == "__main__":
    write_samples(PACKAGED / "rank" / "dnn")
