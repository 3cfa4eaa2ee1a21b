"""A row of the log may be sent as it is: its label and the columns that no feature is read from are passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.net.request_errors import RequestError
from clickline.publish.publisher import Settings, publish
from clickline.publish.sample_rows import unread_columns
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions.store import open_store

ROWS = [{"click": number % 2, "user": f"u{number % 7}", "seen": number, "page": "p"} for number in range(200)]
READER = """
import json

from clickline.data.sources.custom_reader import Reader
from clickline import Reader


class Lines(Reader):
    def rows(self, stream, path):
        for line in stream:
            yield json.loads(line)
"""


def log(folder: Path, form: str) -> dict[str, object]:
    """Writes the rows; gives back the job's `data`."""
    if form == "csv":
        lines = [",".join(map(str, row.values())) for row in ROWS]
        (folder / "log").write_text("\n".join([",".join(ROWS[0]), *lines]) + "\n")
    elif form == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), folder / "log")
    else:
        (folder / "lines.py").write_text(READER)
        (folder / "log").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        form = f"{folder}/lines.py:Lines"
    return {"format": form, "train": [str(folder / "log")], "test": [str(folder / "log")]}


def job_of(folder: Path, form: str) -> Job:
    return Job.model_validate(
        {
            "data": log(folder, form),
            "features": {"labels": ["click"], "slots": ["user"]},
            "model": {"name": "lr"},
            "train": {"epochs": 1, "batch_size": 50},
            "output": str(folder / "runs"),
        }
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "own reader"])
def test_columns_that_no_feature_is_read_from_are_found(tmp_path: Path, form: str) -> None:
    job = job_of(tmp_path, form)
    assert unread_columns(job, Schema.of(job.data, job.features), paths=job.data.test) == ["seen", "page"]


def test_rows_of_the_log_are_answered_as_they_are(tmp_path: Path) -> None:
    result = train_job(job_of(tmp_path, "csv"))
    store = open_store(tmp_path / "store")
    assert publish(result.directory, store, Settings(sample_rows=64)).unread == ["seen", "page"]
    served = ServedModel("ctr", store, interval=3600)
    assert served.refresh(), served.status()
    reader = served.model_version().reader
    question = reader.from_json(json.dumps({"instances": ROWS[:3]}).encode(), most_rows=3)
    assert (len(question.batch), question.missing) == (3, 0)
    with pytest.raises(RequestError, match=r"there is no feature 'usr'; did you mean user\?"):
        reader.from_json(json.dumps({"instances": [ROWS[0] | {"usr": 1}]}).encode(), most_rows=1)
    served.close()
