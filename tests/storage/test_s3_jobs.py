"""The whole way through a bucket: logs in, versions out, versions in, by the commands that a user types."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from clickline.compat.cube.product_source import DonefileSource
from clickline.config import Job
from clickline.cube.builder.builder import build
from clickline.cube.shard_files import read_shard
from clickline.data.sources.compression import decompressed
from clickline.data.sources.files import find
from clickline.errors import DataError, VersionError
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.session import train_job
from clickline.versions.maintenance import list_versions, verify
from clickline.versions.store import open_store
from support.doubles.s3_server import SECRET, VARIABLES, ObjectServer
from support.processes import small_settings, start, write_job


def upload(s3: ObjectServer, bucket: str, key: str, content: bytes) -> None:
    with s3.client() as client:
        client.put_object(Bucket=bucket, Key=key, Body=content)


def environment() -> dict[str, str]:
    """Of this moment, with endpoint and credentials."""
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def command(*arguments: str | Path) -> str:
    """The standard output of a command that ends well; its output never shows the secret."""
    process = start(*arguments, env=environment())
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert SECRET not in out + err
    return out


def parts(criteo: dict[str, str]) -> dict[str, bytes]:
    """The training log in three files, one of them compressed."""
    lines = Path(criteo["train"]).read_bytes().splitlines(keepends=True)
    third = len(lines) // 3
    return {
        "day/part-0.tsv": b"".join(lines[:third]),
        "day/part-1.tsv.gz": gzip.compress(b"".join(lines[third : 2 * third])),
        "day/part-2.tsv": b"".join(lines[2 * third :]),
        "day/_SUCCESS": b"",
    }


@pytest.fixture
def logs(s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path) -> dict[str, Path | str]:
    """The same logs in a directory and in a bucket."""
    for name, content in parts(criteo).items():
        upload(s3, bucket, name, content)
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    upload(s3, bucket, "test.tsv", Path(criteo["test"]).read_bytes())
    (tmp_path / "test.tsv").write_bytes(Path(criteo["test"]).read_bytes())
    return {"directory": tmp_path, "bucket": f"s3://{bucket}"}


@pytest.mark.parametrize("pattern", ["day/part-*", "day", "day/", "day/part-[0-2].tsv*"])
def test_globs_and_directories_name_the_same_files_in_a_bucket(logs: dict[str, Path | str], pattern: str) -> None:
    found = {place: find([f"{root}/{pattern}"], options={}) for place, root in logs.items()}
    names = {
        place: [file.path.removeprefix(f"{logs[place]}/").removeprefix("/") for file in files]
        for place, files in found.items()
    }
    assert names["bucket"] == names["directory"] == ["day/part-0.tsv", "day/part-1.tsv.gz", "day/part-2.tsv"]
    for remote, local in zip(found["bucket"], found["directory"], strict=True):
        with remote.open() as there, local.open() as here:
            assert b"".join(decompressed(there, path="")) == b"".join(decompressed(here, path=""))


def test_what_is_not_in_the_bucket_is_named(logs: dict[str, Path | str]) -> None:
    with pytest.raises(DataError, match=r"no file matches 's3://.*/day/nothing-\*'"):
        find([f"{logs['bucket']}/day/nothing-*"], options={})
    with pytest.raises(DataError, match=r"'s3://no-such-bucket-here/x'"):
        find(["s3://no-such-bucket-here/x"], options={})


def test_without_credentials_the_error_says_so(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        if name.startswith(("AWS_ACCESS", "AWS_SECRET")):
            monkeypatch.delenv(name)
    with pytest.raises(VersionError, match=rf"s3://{bucket}/versions: .*[Cc]redentials"):
        open_store(f"s3://{bucket}/versions").exists()


def test_a_secret_in_an_argument_is_refused(bucket: str) -> None:
    process = start("versions", "list", f"s3://{bucket}/x", "--storage", f"secret={SECRET}", env=environment())
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "${env:NAME}" in err
    assert SECRET not in out + err


@pytest.mark.heavy
def test_a_job_gives_the_same_figures_from_a_directory_and_from_a_bucket(
    logs: dict[str, Path | str], criteo: dict[str, str], tmp_path: Path
) -> None:
    results = {}
    for place, root in logs.items():
        settings = small_settings(criteo, tmp_path / f"of-{place}")
        settings["data"] = {"train": [f"{root}/day/part-*"], "test": [f"{root}/test.tsv"], "shuffle_rows": 1000}
        if place == "directory":
            results[place] = train_job(Job.model_validate(settings)).test
            continue
        job = write_job(tmp_path / "job.yaml", settings)
        results[place] = json.loads(command("train", job, "--json"))["test"]
    assert results["bucket"]["auc"] == pytest.approx(results["directory"]["auc"], abs=0)
    for file in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert SECRET.encode() not in file.read_bytes(), file


@pytest.mark.heavy
def test_versions_are_published_to_a_bucket_served_and_delivered_from_it(
    s3: ObjectServer, bucket: str, trained_model: Path, tmp_path: Path
) -> None:
    url = f"s3://{bucket}/models/ctr"
    publish(trained_model, open_store(url), Settings(kind="base", sample_rows=16))
    summary = json.loads(command("publish", trained_model, "--to", url, "--kind", "delta", "--json"))
    assert summary["version"] == 2
    listed = json.loads(command("versions", "list", url, "--json"))
    assert [(one["version"], one["kind"]) for one in listed] == [(1, "base"), (2, "delta")]
    store = open_store(url)
    assert verify(store, 2) > 0
    served = ServedModel("ctr", store)
    assert served.refresh()  # checks that the sample is predicted as the trainer did
    assert served.status()["version"] == 2
    served.close()
    source = DonefileSource(url, table="ctr")
    assert [step.version for step in source.chain()] == [1, 2]
    made = build(source.rows(source.chain()[0], scratch=tmp_path / "s"), out=tmp_path / "out", name="ctr", shards=1)
    total = list_versions(store)[0]["tables"]["embedding"]["rows"]
    assert read_shard(made.path / "ctr_part0.tar").tables["embedding"].open().count == total
    with s3.client() as client:
        for entry in client.list_objects_v2(Bucket=bucket)["Contents"]:
            assert SECRET.encode() not in client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read()


@pytest.mark.heavy
def test_two_publishers_to_a_bucket_take_turns(bucket: str, s3: ObjectServer, trained_model: Path) -> None:
    url = f"s3://{bucket}/models"
    both = [start("publish", trained_model, "--to", url, "--kind", "base", "--json", env=environment()) for _ in "ab"]
    numbers = []
    for process in both:
        out, err = process.communicate(timeout=180)
        assert process.returncode == 0, err
        numbers.append(json.loads(out)["version"])
    assert sorted(numbers) == [1, 2]
    store = open_store(url)
    assert verify(store, 1) == verify(store, 2) == 5
    assert store.names() == ["v0000000001", "v0000000002", "versions.jsonl"]
