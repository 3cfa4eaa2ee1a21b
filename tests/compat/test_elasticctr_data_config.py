"""ElasticCTR's data.config becomes values of a suite; nothing in it is executed, and no password is carried."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.compat.elasticctr.data_config import is_data_config, read_data_config
from clickline.config.loading.reader import checked_settings
from clickline.deploy.values import Values
from clickline.errors import JobError

TEXT = """\
export HDFS_ADDRESS="hdfs://192.168.48.87:9000"
export HDFS_UGI="root,i"
export START_DATE_HR=20200401/00
export END_DATE_HR='20200401/03'
export DATASET_PATH="/train_data"
export SPARSE_DIM="1000001"
"""


def written(directory: Path, text: str) -> Path:
    file = directory / "data.config"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_key_is_carried_or_noticed(tmp_path: Path) -> None:
    file = written(tmp_path, TEXT)
    assert is_data_config(file)
    read = read_data_config(file)
    values = checked_settings(read.values, Values, source="values")
    assert values.data.train == ["hdfs://192.168.48.87:9000/train_data/%Y%m%d/%H/part-*"]
    assert values.data.done == "hdfs://192.168.48.87:9000/train_data/%Y%m%d/%H/donefile"
    assert (values.data.start, values.data.end) == ("20200401/00", "20200401/03")
    notices = "\n".join(read.notices)
    assert "HDFS_UGI" in notices and "SPARSE_DIM" in notices and "root,i" not in notices + str(read.values)


def test_what_is_wrong_is_told_at_once_and_nothing_is_executed(tmp_path: Path) -> None:
    marker = tmp_path / "executed"
    text = f"START_DATE_HR=yesterday\nDATASET_PATHS=/a\nEND_DATE_HR=$(touch {marker})\n"
    with pytest.raises(JobError) as caught:
        read_data_config(written(tmp_path, text))
    told = str(caught.value)
    assert "line 1" in told and "is not an hour" in told
    assert "did you mean DATASET_PATH" in told
    assert "expressions of the shell are not evaluated" in told
    assert not marker.exists()
