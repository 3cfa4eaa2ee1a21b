"""A small CSV log whose label is a number: what each user and each item add to it, and noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np

MEAN = 37.5
NOISE = 0.5


def write_rated_items(directory: Path, *, rows: int = 3000, seed: int = 4) -> dict[str, str]:
    """`train.csv` and `test.csv` with user, item, price, label (about MEAN), second (its negative) and weight."""
    random = np.random.default_rng(seed)
    users, items = random.integers(0, 40, rows), random.integers(0, 30, rows)
    effects = random.normal(0, 2, 40), random.normal(0, 2, 30)
    labels = MEAN + effects[0][users] + effects[1][items] + random.normal(0, NOISE, rows)
    price, weight = random.random(rows), random.integers(1, 4, rows)
    lines = [
        f"u{u},i{i},{p:.4f},{label:.5f},{-label:.5f},{w}\n"
        for u, i, p, label, w in zip(users, items, price, labels, weight, strict=True)
    ]
    paths = {}
    for name, part in (("train", lines[: rows * 4 // 5]), ("test", lines[rows * 4 // 5 :])):
        path = directory / f"{name}.csv"
        path.write_text("user,item,price,label,second,weight\n" + "".join(part))
        paths[name] = str(path)
    return paths


def squared_settings(paths: dict[str, str], directory: Path, **train: object) -> dict[str, object]:
    """A job that predicts the label of `write_rated_items`."""
    return {
        "name": "squared",
        "seed": 5,
        "threads": 1,
        "output": str(directory / "runs"),
        "data": {"format": "csv", "train": [paths["train"]], "test": [paths["test"]], "shuffle_rows": 0, "threads": 1},
        "features": {"slots": ["user", "item"], "dense": ["price"]},
        "model": {"name": "deepfm", "embedding_dim": 4, "hidden": [16], "dropout": 0.0},
        "tables": {"embedding": {"restart_epochs": False}},
        "train": {"loss": "squared", "batch_size": 50, "log_every": 12, "epochs": 2, **train},
    }
