"""Hostfiles in MPI's form."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.errors import JobError
from clickline.launch.hosts.hostfile import read_hostfile


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "hosts"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_line_is_a_host_with_its_slots(tmp_path: Path) -> None:
    text = "# the cluster\nnode1 slots=2\n\nuser@node2:2202   # behind a gateway\nnode3 slots=4 max_slots=8\n"
    assert read_hostfile(written(tmp_path, text)) == [
        {"host": "node1", "trainers": 2},
        {"host": "user@node2", "ssh_port": 2202},
        {"host": "node3", "trainers": 4},
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no hosts in it"),
        ("# none\n", "no hosts in it"),
        ("a\nnode1 cores=2\n", "line 2: 'node1 cores=2'; expected"),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_words(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        read_hostfile(written(tmp_path, text))
