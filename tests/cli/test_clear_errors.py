"""Bad input of every kind ends with a message that names it, an exit code that means it, and no traceback."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from clickline.errors import JobError
from support.processes import ENVIRONMENT, run

GOOD = b"0\t1\t" + b"\t".join([b"2"] * 12) + b"\t" + b"\t".join([b"68fd1e64"] * 26) + b"\n"
NAN = b"nan" + GOOD[1:]


def files(directory: Path) -> dict[str, Path]:
    made = {
        name: directory / name for name in ("good.tsv", "garbage.tsv", "empty.tsv", "cut.tsv.gz", "nan.tsv", "none")
    }
    made["good.tsv"].write_bytes(GOOD * 300)
    made["garbage.tsv"].write_bytes(random.Random(1).randbytes(100_000))
    made["empty.tsv"].write_bytes(b"")
    made["cut.tsv.gz"].write_bytes(gzip.compress(GOOD * 300)[:-20])
    made["nan.tsv"].write_bytes(GOOD * 10 + NAN + GOOD * 10)
    made["none"].mkdir()
    return made


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("garbage.tsv", ["malformed", "garbage.tsv, line 1", "data.max_bad_rows"]),
        ("empty.tsv", ["no rows", "empty.tsv"]),
        ("none", ["no files in the directory", "none"]),
        ("none/*.tsv", ["no file matches", "none/*.tsv"]),
        ("missing.tsv", ["No such file", "missing.tsv"]),
        ("cut.tsv.gz", ["cut.tsv.gz", "truncated"]),
        ("nan.tsv", ["nan.tsv, line 11", "label", "nan"]),
    ],
)
def test_bad_data(tmp_path: Path, train: str, words: list[str]) -> None:
    files(tmp_path)
    job = {"output": str(tmp_path / "runs"), "data": {"train": str(tmp_path / train)}, "model": {"name": "lr"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    done = run("train", tmp_path / "job.yaml")
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("model: {name: lr}\n", ["data.train is empty"]),
        ("data: {train: good.tsv}\ntrain:\n  epochs: many\n", ["train.epochs, line 3", '"many" is not an integer']),
        (
            "data: {train: good.tsv}\nmodel:\n  embeding_dim: 4\n",
            ["model.embeding_dim, line 3", "did you mean embedding_dim"],
        ),
        ("data: {train: good.tsv}\nmodel: {name: deepfn}\n", ["deepfn", "deepfm"]),
        ("data: {train: good.tsv}\nmodel: {name: lr, params: {a: 1}}\n", ["model.params.a"]),
        (
            "data: {train: good.tsv}\ncluster: {pservers: 1, trainers: 1}\ntables: {evict_every: 7}\n",
            ["tables.evict_every is 7", "leave it 0"],
        ),
    ],
)
def test_bad_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, words: list[str]) -> None:
    files(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(job)
    done = run("train", "job.yaml")
    assert done.returncode in (3, 5), done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def test_good_data_is_fine(tmp_path: Path) -> None:
    made = files(tmp_path)
    job = {"output": str(tmp_path / "runs"), "data": {"train": str(made["good.tsv"])}, "model": {"name": "lr"}}
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    assert run("train", tmp_path / "job.yaml").returncode == 0


@pytest.mark.parametrize("flags", [[], ["--json"]], ids=["text", "json"])
def test_an_error_keeps_its_exit_code_when_its_message_cannot_be_written(tmp_path: Path, flags: list[str]) -> None:
    command = [sys.executable, "-m", "clickline", "validate", str(tmp_path / "none.yaml"), *flags]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=full, env=ENVIRONMENT, check=False)
    assert done.returncode == JobError.exit_code
