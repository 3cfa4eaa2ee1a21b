"""Readers from outside the package, and classes of the user's own in general."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from clickline._native import feature_key
from clickline.config.data import Data
from clickline.data.dataset import Dataset
from clickline.data.schema import Schema
from clickline.data.sources import custom_reader_tables
from clickline.data.sources.custom_reader import Reader
from clickline.errors import DataError, JobError
from clickline.plugins import load_class
from support.data.click_logs import COLUMNS, READER, dataset, plain, taken, write


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path, "custom", 30)
    wanted = plain(taken(dataset([path], "custom", tmp_path)))
    path.write_text(path.read_text().replace("|", "~"))
    assert plain(taken(dataset([path], "custom", tmp_path, reader={"separator": "~"}))) == wanted


def test_stream_is_decompressed(tmp_path: Path) -> None:
    path = write(tmp_path, "custom", 30)
    wanted = plain(taken(dataset([path], "custom", tmp_path)))
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert plain(taken(dataset([path], "custom", tmp_path))) == wanted


def test_option_that_it_does_not_have(tmp_path: Path) -> None:
    path = write(tmp_path, "custom", 3)
    with pytest.raises(JobError, match=r"data\.reader does not fit .*pipes\.py:Pipes: .*'colour'"):
        dataset([path], "custom", tmp_path, reader={"colour": 1})


def test_reader_that_fails(tmp_path: Path) -> None:
    path = write(tmp_path, "custom", 30)
    with pytest.raises(
        DataError, match=r"Pipes failed on '.*' after 3 rows with RuntimeError: reader broke; to have a row skipped"
    ):
        taken(dataset([path], "custom", tmp_path, reader={"fail_at": 3}))


BAD_ROWS = """
from clickline import Reader, RowError

class Half(Reader):
    def rows(self, stream, path):
        for number, line in enumerate(stream, 1):
            label, user, tags, price = line.decode().rstrip("\\n").split("|")
            row = {"label": int(label), "user": user, "tags": tags.split(";"), "price": price or None}
            if number == 20:
                yield RowError("is not a price", column="price")
            elif number == 33:
                yield row | {"label": "x"}
            elif number == 47:
                yield row | {"user": {"id": 3}}
            elif number == 48:
                yield row | {"user": 7.0}
            elif number == 49:
                yield row | {"tags": "t1"}
            else:
                yield row
"""


@pytest.mark.parametrize("rows_per_table", [4096, 20])
def test_malformed_rows_are_skipped_and_told_with_row_and_column(rows_per_table, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(custom_reader_tables, "ROWS_PER_TABLE", rows_per_table)
    path = write(tmp_path, "custom", 60)
    (tmp_path / "half.py").write_text(BAD_ROWS)

    def read(**limits: float) -> Dataset:
        data = Data(format=f"{tmp_path}/half.py:Half", **limits)
        schema = Schema.of(data, COLUMNS)
        return Dataset(data=data, schema=schema, paths=[str(path)], batch_size=16, seed=1, shuffle=False)

    found = read(max_bad_rows=5)
    batches = [batch for batch, _ in found.batches(epoch=0)]
    assert sum(map(len, batches)) == 57
    told = [(row.line, row.reason) for row in found.report.examples]
    assert [line for line, _ in told] == [20, 33, 47]
    assert told[0][1] == "column 'price': is not a price"
    assert "label" in told[1][1]
    assert "'x'" in told[1][1]
    assert told[2][1] == "column 'user': dict is neither text, a number, None nor a list of these"
    assert str(found.report.examples[0]).endswith(", row 20: column 'price': is not a price")
    numbered = np.concatenate([batch.keys[batch.offsets[:-1].reshape(len(batch), 2)[:, 0]] for batch in batches])
    assert feature_key("user", b"7") == numbered[48 - 1 - 3]
    with pytest.raises(DataError, match=r"row 47: column 'user': dict is neither"):
        for _ in read(max_bad_rows=2).batches(epoch=0):
            pass


def test_rows_may_differ_in_their_columns() -> None:
    class Uneven(Reader):
        def rows(self, stream, path):
            yield {"a": 1}
            yield {"a": 2, "b": "x"}

    (table,) = Uneven().tables(None, "")
    assert table.to_pydict() == {"a": [1, 2], "b": [None, "x"]}


def test_reader_without_rows_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"Reader must implement rows\(\) or tables\(\)"):
        list(Reader().tables(None, ""))


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(READER + "\nclass Other:\n    pass\n\nnumber = 5\n")
    return path


def test_class_from_a_file_is_one_class(plugin: Path) -> None:
    found = load_class(f"{plugin}:Pipes", base=Reader, what="data.format")
    assert issubclass(found, Reader)
    assert load_class(f"{plugin}:Pipes", base=Reader, what="data.format") is found


def test_class_from_a_module(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin.parent)
    assert load_class("mine:Pipes", base=Reader, what="data.format").__name__ == "Pipes"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nowhere/mine.py:Pipes", r"data\.format: no file 'nowhere/mine\.py' \(looked at /.*\)"),
        ("{plugin}:Tubes", r"has no class 'Tubes'; known classes: Pipes$"),
        ("{plugin}:number", r"has no class 'number'"),
        ("{plugin}:Other", r"mine\.py:Other must derive from clickline\.Reader$"),
        ("no_such_module_here:Pipes", r"no module 'no_such_module_here'; install it, put its directory on PYTHONPATH"),
        ("no_such.sub_module:Pipes", r"no module 'no_such\.sub_module'"),
        ("Pipes", r"'Pipes' must be module:Class or path/file\.py:Class"),
    ],
)
def test_what_can_go_wrong(reference: str, message: str, plugin: Path) -> None:
    with pytest.raises(JobError, match=message):
        load_class(reference.format(plugin=plugin), base=Reader, what="data.format")


@pytest.mark.parametrize(
    ("code", "message"),
    [("x = = 1", "SyntaxError"), ("import no_such_dependency", "no_such_dependency"), ("1/0", "Zero")],
)
def test_code_that_does_not_load(code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_reader.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(JobError, match=rf"loading '.*broken_reader\.py' failed with .*{message}"):
        load_class(f"{tmp_path}/broken_reader.py:Pipes", base=Reader, what="data.format")
    with pytest.raises(JobError, match=rf"importing 'broken_reader' failed with .*{message}"):
        load_class("broken_reader:Pipes", base=Reader, what="data.format")
