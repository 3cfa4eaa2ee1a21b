"""Files that are no job, or try to do harm: refused, with a reason, quickly."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.config.loading.reader import MAX_BYTES, read_job
from clickline.errors import JobError


def refused(path: Path) -> str:
    with pytest.raises(JobError) as caught:
        read_job(path)
    (problem,) = caught.value.errors
    return str(problem)


def written(folder: Path, content: str | bytes) -> Path:
    file = folder / "job.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("train:\n\tepochs: 1\n", "line 2, column 1: not valid YAML: a tab; YAML is indented with spaces"),
        ("train: [1, 2\n", "line 2, column 1: not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("a: 1\n---\nb: 2\n", "line 2, column 1: not valid YAML: but found another document"),
        ("a: *gone\n", "line 1, column 4: not valid YAML: found undefined alias 'gone'"),
        ("- train\n- model\n", "line 1: a job is a mapping of keys to values, not a list"),
        ("train", 'line 1: a job is a mapping of keys to values, not "train"'),
        ("a: &a [*a]\n", "line 1: nested more than 32 deep, or an alias that contains itself"),
        ("a: " + "[" * 5000, "line 1: nested more than 32 deep, or an alias that contains itself"),
        (b"seed: 1\nname: \xff\n", "line 2: not UTF-8"),
        ("seed: 1\nname: a\x07b\n", "line 2: character U+0007 is not allowed in YAML"),
        ("#" * (MAX_BYTES + 1), "larger than 1048576 bytes; a job file is a few kilobytes"),
        ("name: !!python/name:os.system x\n", "name, line 1: !!python/name:os.system is not used in jobs"),
        ("train: !!python/dict {}\n", "train, line 1: !!python/dict is not used in jobs"),
        ("name: !mine x\n", "name, line 1: !mine is not used in jobs"),
        ("? [a, b]\n: 1\n", "line 1: a key must be a word, not a list or a mapping"),
        ("seed: !!int x\n", "seed, line 1: not a number, or one with too many digits (tag !!int)"),
        (f"seed: {'9' * 5000}\n", "seed, line 1: not a number, or one with too many digits (tag !!int)"),
        ("train:\n  <<: 3\n", "train, line 2: << takes a mapping, or a list of mappings"),
    ],
)
def test_text_that_is_no_job_is_refused_with_its_place(tmp_path: Path, content: str | bytes, expected: str) -> None:
    assert refused(written(tmp_path, content)) == expected


def test_aliases_that_multiply_are_stopped(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    assert refused(written(tmp_path, "\n".join(lines))).endswith("more than 200000 values once aliases are expanded")


def test_a_missing_file_is_named_and_a_similar_one_suggested(tmp_path: Path) -> None:
    (tmp_path / "criteo.yaml").touch()
    assert refused(tmp_path / "criteo.yml") == f"no such file; did you mean {tmp_path / 'criteo.yaml'}?"
    assert refused(tmp_path / "nowhere" / "job.yaml") == "no such file"


def test_a_directory_is_no_job(tmp_path: Path) -> None:
    assert refused(tmp_path) == "cannot be read: Is a directory"
