"""Rows of a log as instances for a predictor: the same features come of them as of the log itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickline.client.raw_rows import first_rows, raw_rows
from clickline.config import Job
from clickline.data.batch import Batch, join
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.data.sources.arrow import parse_table

CRITEO = ["1", "3", "", "-2", *["7"] * 10, "68fd1e64", "", *["a b"] * 24]
LOGS: dict[str, tuple[str, dict[str, Any]]] = {
    "criteo": ("\t".join(CRITEO) + "\n" + "\t".join(["0", *[""] * 39]) + "\r\n" + "half a line\n\n", {}),
    "csv": (
        'label,user,ads,price,w\n1,u1,a|b||c,0.5,2\n0,"u,2",,,1\n\n1,"say ""x""",a,oops,1\n0,u3,d,1e3,0.5\n',
        {
            "slots": ["user", {"name": "ad", "column": "ads", "separator": "|"}],
            "dense": ["price"],
            "weight": "w",
        },
    ),
    "slots": (
        "label:1 user:77 ad:4 ad:9 price:0.3 price:2 other:1\n \n label:0\tad:4:5\nlabel:1 user\n"
        "label:0 price:1 price:3\n",
        {"slots": ["user", "ad"], "dense": [{"name": "price", "size": 2}]},
    ),
    "elasticctr": ("1 0 1724:0 1326:1 99:1\n1 1 5:0\n1\n1 0 6:7\n", {"slots": ["0", "1"], "keys": "raw"}),
}


def job_of(form: str, path: Path, features: dict[str, Any]) -> Job:
    return Job.model_validate({"data": {"format": form, "train": str(path), "max_bad_rows": 100}, "features": features})


def trained_on(job: Job, schema: Schema, path: Path) -> Batch:
    """What a training or a test of it sees."""
    dataset = Dataset(data=job.data, schema=schema, paths=[str(path)], batch_size=1000, seed=1, shuffle=False)
    return join([batch for batch, _ in dataset.batches(epoch=0)])


def asked_with(schema: Schema, instances: list[dict[str, Any]]) -> Batch:
    """What a server makes of instances, after they were JSON."""
    said = json.loads(json.dumps(instances, allow_nan=False))
    parser = replace(schema, format="parquet").parser(labelled=False)
    listed = {
        name: [
            one if isinstance(one, list) else [] if one is None else [one] for one in (row.get(name) for row in said)
        ]
        for name in parser.columns
    }
    columns = {name: pa.array(values, pa.list_(_kind(values))) for name, values in listed.items()}
    parsed = parse_table(parser, pa.RecordBatch.from_pydict(columns))
    assert (len(parsed), parsed.bad) == (len(instances), 0)
    return Batch(labels=parsed.labels, dense=parsed.dense, keys=parsed.keys, offsets=parsed.offsets)


def _kind(values: list[list[Any]]) -> pa.DataType:
    return pa.array([one for value in values for one in value] or [""]).type


def check_the_same(job: Job, path: Path, *, rows: int) -> None:
    schema = Schema.of(job.data, job.features)
    parts = list(raw_rows(job.data, schema, [str(path)], rows=2))
    assert all(len(part) <= 2 for part in parts)
    wanted = trained_on(job, schema, path)
    found = asked_with(schema, [one for part in parts for one in part.instances])
    assert len(found) == len(wanted) == rows
    assert np.array_equal(found.keys, wanted.keys)
    assert np.allclose(found.dense, wanted.dense, rtol=1e-6, atol=0)
    assert (found.offsets is None) == (wanted.offsets is None)
    assert found.offsets is None or np.array_equal(found.offsets, wanted.offsets)
    assert np.array_equal(np.concatenate([part.labels for part in parts]), wanted.labels)
    if wanted.weights is not None:
        assert np.array_equal(np.concatenate([part.weights for part in parts]), wanted.weights)
    names = {name for part in parts for one in part.instances for name in one}
    assert not names & set(schema.labels)


@pytest.mark.parametrize("form", LOGS)
def test_text_gives_the_same_features(tmp_path: Path, form: str) -> None:
    text, features = LOGS[form]
    path = tmp_path / "log.txt"
    path.write_text(text, encoding="utf-8", newline="")
    check_the_same(job_of(form, path, features), path, rows={"criteo": 2}.get(form, 3))


def test_columns_of_every_type_give_the_same_features(tmp_path: Path) -> None:
    table = pa.table(
        {
            "label": [1, 0, 1],
            "short": pa.array([0.1, None, 1e-5], pa.float32()),
            "whole": pa.array([7, -1, None], pa.int32()),
            "flag": [True, None, False],
            "text": pa.array(["x", "", None]).dictionary_encode(),
            "day": pa.array([1, None, 3], pa.date32()),
            "many": pa.array([["a", None], [], None], pa.list_(pa.string())),
            "price": [0.25, 2.0, float("nan")],
        }
    )
    path = tmp_path / "log.parquet"
    pq.write_table(table, path)
    slots = ["short", "whole", "flag", "text", "day", "many"]
    check_the_same(job_of("parquet", path, {"slots": slots, "dense": ["price"]}), path, rows=2)


def test_a_reader_of_ones_own_gives_the_same_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = (
        "from clickline import Reader\n\n\nclass Lines(Reader):\n    def rows(self, stream, path):\n"
        "        for n, line in enumerate(stream):\n            yield {'label': n % 2, 'word': line.split()}\n"
    )
    (tmp_path / "lines_reader.py").write_text(code)
    (tmp_path / "log.txt").write_text("a b\nc\n")
    check_the_same(
        job_of("lines_reader.py:Lines", tmp_path / "log.txt", {"slots": ["word"]}), tmp_path / "log.txt", rows=2
    )


def test_the_first_rows_alone(tmp_path: Path) -> None:
    text, features = LOGS["csv"]
    path = tmp_path / "log.csv"
    path.write_text(text, encoding="utf-8")
    job = job_of("csv", path, features)
    schema = Schema.of(job.data, job.features)
    found = first_rows(job.data, schema, [str(path)], 1)
    assert found.instances == [{"user": "u1", "ads": "a|b||c", "price": "0.5"}]
    assert found.labels.tolist() == [[1.0]]
