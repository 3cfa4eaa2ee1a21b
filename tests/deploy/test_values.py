"""Values: everything that is wrong is said at once, with lines and suggestions."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.deploy.values import read_values
from clickline.errors import JobError


def problems_in(directory: Path, text: str) -> str:
    file = directory / "values.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(JobError) as caught:
        read_values(file)
    return str(caught.value)


def test_all_problems_are_told_at_once_by_line(tmp_path: Path) -> None:
    told = problems_in(tmp_path, "cube:\n  shard: 3\n  replicas: 0\nname: Big\npredictor:\n  cpu: lots\n")
    assert "4 errors" in told
    assert "line 2" in told and "did you mean shards" in told
    assert "line 3" in told and "line 4" in told and "line 6" in told


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data:\n  start: 20240101/00\n", "a window has a first and a last hour"),
        ("data:\n  start: 20240102/00\n  end: 20240101/00\n", "is before data.start"),
        ("data:\n  source: paths\n", "needs the paths or URLs"),
        ("data:\n  train: [a]\n", "use source: paths"),
        ("predictor:\n  replicas: 3\n  max_replicas: 2\n", "is less than predictor.replicas"),
    ],
)
def test_values_that_do_not_fit_each_other_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in problems_in(tmp_path, text)


def test_no_file_is_the_demo() -> None:
    values = read_values(None)
    assert (values.data.source, values.cube.shards, values.training.pservers) == ("demo", 2, 2)
