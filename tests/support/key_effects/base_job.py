"""The job that keys are tried on: small, and with a use for nearly every key."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet

JOB = """\
name: base
seed: 4
data:
  format: csv
  train: [train.csv]
  valid: [valid.csv]
  test: [test.csv]
  shuffle_rows: 100
  block_bytes: 4096
  max_bad_rows: 5
features:
  slots:
    - {name: user, pooling: sum, separator: "|"}
    - item
    - {name: seen, pooling: mean, keys_of: item, separator: "|"}
  dense:
    - {name: age, normalise: standard}
    - price
model: {name: deepfm, embedding_dim: 4, hidden: [8]}
train: {epochs: 2, batch_size: 16, log_every: 5}
tables: {embedding: {init_scale: 0.1}}
cluster: {threads: 1, heartbeat: 0.2, piece_bytes: 4000}
"""
COLUMNS = ("label", "user", "item", "seen", "age", "price", "buy", "weight", "time", "group", "number")
FIGURES = """\
def brier(labels, predictions):
    return float(((predictions - labels) ** 2).mean())
"""
READER = """\
import pyarrow.csv
from clickline import Reader


class Lines(Reader):
    def __init__(self, skip: int = 0) -> None:
        self.skip = skip

    def tables(self, stream, path):
        yield from pyarrow.csv.read_csv(stream).slice(self.skip).to_batches()
"""


def write_base(directory: Path) -> Path:
    """Write the job, its data in several formats, and a reader; gives back the job's path."""
    draw = random.Random(7)
    for name, rows in (("train", 300), ("valid", 80), ("test", 80)):
        lines = [_line(draw, number) for number in range(rows)]
        text = "".join(",".join(line) + "\n" for line in (COLUMNS, *lines))
        (directory / f"{name}.csv").write_text(text, encoding="utf-8")
    train = (directory / "train.csv").read_text(encoding="utf-8")
    (directory / "semicolons.csv").write_text(train.replace(",", ";"), encoding="utf-8")
    pyarrow.parquet.write_table(pyarrow.csv.read_csv(directory / "train.csv"), directory / "train.parquet")
    # One row that cannot be read, for data.max_bad_rows.
    (directory / "train.csv").write_text(train + "2,u1,i1,i2,30,1,0,1,400,g,5\n", encoding="utf-8")
    (directory / "reader.py").write_text(READER, encoding="utf-8")
    (directory / "figures.py").write_text(FIGURES, encoding="utf-8")
    job = directory / "base.yaml"
    job.write_text(JOB, encoding="utf-8")
    return job


def _line(draw: random.Random, number: int) -> list[str]:
    user, item = draw.randrange(150), draw.randrange(20)
    seen = "|".join(f"i{draw.randrange(20)}" for _ in range(draw.randrange(1, 4)))
    label = int(draw.random() < (0.8 if (user + item) % 3 == 0 else 0.2))
    age = "" if draw.random() < 0.1 else str(draw.randrange(18, 70))
    price, weight = f"{draw.random() * 9:.2f}", f"{draw.random() + 0.5:.2f}"
    several = f"u{user}|u{draw.randrange(150)}"
    rest = [str(draw.randrange(2)), weight, str(1000 + number), f"g{user % 4}", str(item)]
    return [str(label), several, f"i{item}", seen, age, price, *rest]
