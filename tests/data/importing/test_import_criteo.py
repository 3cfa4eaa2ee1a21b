"""Importing Criteo: the same lines, split in the order of time; archives; bad lines; nothing half done."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from clickline.config.loading.reader import read_job
from clickline.data.dataset import Dataset
from clickline.data.importers import import_criteo
from clickline.data.schema import Schema
from clickline.errors import DataError
from support.data.downloads import criteo_lines, left, tar_gz

LINES = criteo_lines(2500)
TEXT = b"".join(LINES)
BAD = b"1\tno such\tline\n"


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd], ids=["plain", "gzip", "zstd"])
def test_lines_stay_as_they_are_and_the_last_are_for_testing(pack, tmp_path):
    source = tmp_path / "train.txt"
    source.write_bytes(pack(TEXT))
    done = import_criteo(str(source), tmp_path / "new" / "out")
    assert (done.train_rows, done.test_rows, done.bad, done.first_bad) == (2000, 500, 0, None)
    assert done.train.read_bytes() == b"".join(LINES[:2000])
    assert done.test.read_bytes() == b"".join(LINES[2000:])
    assert left(tmp_path / "new" / "out") == ["job.yaml", "test.tsv", "train.tsv"]


def test_the_job_reads_the_rows_from_any_directory(tmp_path, monkeypatch):
    (tmp_path / "train.txt").write_bytes(TEXT)
    monkeypatch.chdir(tmp_path)
    import_criteo("train.txt", Path("out"))
    monkeypatch.chdir("/")
    job = read_job(tmp_path / "out" / "job.yaml").job
    schema = Schema.of(job.data, job.features)
    test = Dataset(data=job.data, schema=schema, paths=job.data.test, batch_size=512, seed=1, shuffle=False)
    assert sum(len(batch.labels) for batch, _ in test.batches(epoch=0, start=None)) == 500
    assert test.report.bad == 0


def test_a_tar_is_read_by_name_and_never_unpacked(tmp_path):
    members = {"dac/readme.txt": b"hello", "../../dac/train.txt": TEXT, "dac/test.txt": b"1\n"}
    archive = tar_gz(tmp_path / "dac.tar.gz", members)
    done = import_criteo(str(archive), tmp_path / "out")
    assert done.train.read_bytes() + done.test.read_bytes() == TEXT
    assert left(tmp_path) == ["dac.tar.gz", "out"]


def test_a_tar_without_the_file(tmp_path):
    archive = tar_gz(tmp_path / "dac.tar.gz", {"dac/test.txt": TEXT})
    with pytest.raises(DataError, match=r"no file called train.txt; it has: test.txt; expected is train.txt of Criteo"):
        import_criteo(str(archive), tmp_path / "out")


def test_a_truncated_tar_leaves_nothing(tmp_path):
    archive = tar_gz(tmp_path / "dac.tar.gz", {"dac/train.txt": TEXT})
    archive.write_bytes(gzip.compress(gzip.decompress(archive.read_bytes())[: len(TEXT) // 2]))
    with pytest.raises(DataError, match=r"damaged tar archive .*: download it again"):
        import_criteo(str(archive), tmp_path / "new" / "out")
    assert left(tmp_path) == ["dac.tar.gz"]


def test_only_the_first_rows(tmp_path):
    (tmp_path / "train.txt").write_bytes(b"\n" + b"".join(LINES[:100]) + BAD + b"".join(LINES[100:]))
    done = import_criteo(str(tmp_path / "train.txt"), tmp_path / "out", rows=100, test_share=0.1)
    assert done.bad == 0  # the bad one comes after the last that is wanted
    assert done.train.read_bytes() == b"".join(LINES[:90])
    assert done.test.read_bytes() == b"".join(LINES[90:100])


def test_bad_and_blank_lines_are_left_out_and_the_first_bad_one_is_told(tmp_path):
    source = tmp_path / "train.txt"
    source.write_bytes(b"\n" + b"".join([*LINES[:1000], BAD, *LINES[1000:], b"\r\n", BAD]).rstrip(b"\n"))
    done = import_criteo(str(source), tmp_path / "out")
    assert done.train.read_bytes() + done.test.read_bytes() == TEXT
    assert done.bad == 2
    assert done.first_bad is not None
    assert done.first_bad.line == 1002
    assert "40 fields" in done.first_bad.reason


def test_many_bad_lines_in_one_block(tmp_path):
    lines = LINES * 5
    source = tmp_path / "train.txt"
    source.write_bytes(b"".join([*lines[:40], BAD * 12, *lines[40:]]))
    done = import_criteo(str(source), tmp_path / "out")
    assert done.train.read_bytes() + done.test.read_bytes() == b"".join(lines)
    assert (done.bad, done.first_bad and done.first_bad.line) == (12, 41)


def test_too_many_bad_lines_are_an_error_and_leave_nothing(tmp_path):
    source = tmp_path / "train.txt"
    source.write_bytes(b"".join([*LINES, BAD, BAD, BAD]))
    with pytest.raises(
        DataError, match=r"3 of 2,503 lines of .* malformed, more than 0.1%; the first is line 2501: a l"
    ):
        import_criteo(str(source), tmp_path / "new" / "out")
    assert left(tmp_path) == ["train.txt"]


def test_a_file_of_another_kind_stops_early(tmp_path):
    source = tmp_path / "train.txt"
    source.write_bytes(b"no Criteo\n" * 500_000)
    shares = []
    with pytest.raises(DataError, match=r"got 1; expected is train\.txt of Criteo"):
        import_criteo(str(source), tmp_path / "out", progress=shares.append)
    assert len(shares) == 1


def test_what_is_there_is_not_overwritten_unless_forced(tmp_path):
    (tmp_path / "train.txt").write_bytes(TEXT)
    out = tmp_path / "out"
    out.mkdir()
    (out / "test.tsv").write_bytes(b"precious")
    (out / "other").write_bytes(b"not ours")
    with pytest.raises(DataError, match=r"has test.tsv already; .* --force"):
        import_criteo(str(tmp_path / "train.txt"), out)
    assert (out / "test.tsv").read_bytes() == b"precious"
    import_criteo(str(tmp_path / "train.txt"), out, force=True)
    assert (out / "test.tsv").read_bytes() == b"".join(LINES[2000:])
    assert left(out) == ["job.yaml", "other", "test.tsv", "train.tsv"]


def test_a_failed_import_keeps_what_was_there(tmp_path):
    (tmp_path / "train.txt").write_bytes(TEXT)
    before = import_criteo(str(tmp_path / "train.txt"), tmp_path / "out").job.read_bytes()
    (tmp_path / "train.txt").write_bytes(gzip.compress(TEXT)[:-20])
    with pytest.raises(DataError, match="truncated"):
        import_criteo(str(tmp_path / "train.txt"), tmp_path / "out", force=True)
    assert (tmp_path / "out" / "job.yaml").read_bytes() == before
    assert (tmp_path / "out" / "train.tsv").read_bytes() == b"".join(LINES[:2000])
    assert left(tmp_path / "out") == ["job.yaml", "test.tsv", "train.tsv"]


def test_the_source_is_never_overwritten(tmp_path):
    (tmp_path / "train.tsv").write_bytes(TEXT)
    with pytest.raises(DataError, match="overwrite its own source"):
        import_criteo(str(tmp_path / "train.tsv"), tmp_path, force=True)
    assert (tmp_path / "train.tsv").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ("gone.txt", {}, r"no such file or directory.*; expected is train.txt"),
        ("many", {}, r"has 2 files, but none is called train.txt or .*; expected is train.txt"),
        ("one.txt", {}, r"there are 1 rows to import; at least 2"),
        ("one.txt", {"test_share": 1.0}, r"must be between 0 and 1, got 1.0"),
        ("one.txt", {"out": "one.txt"}, r"is a file, but a directory"),
    ],
)
def test_refusals(source, options, message, tmp_path):
    (tmp_path / "one.txt").write_bytes(LINES[0])
    (tmp_path / "many").mkdir()
    (tmp_path / "many" / "a").write_bytes(TEXT)
    (tmp_path / "many" / "b").write_bytes(TEXT)
    settings = {key: value for key, value in options.items() if key != "out"}
    with pytest.raises(DataError, match=message):
        import_criteo(str(tmp_path / source), tmp_path / options.get("out", "out"), **settings)
    assert left(tmp_path) == ["many", "one.txt"]
