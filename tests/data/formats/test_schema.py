"""The schema: defaults of formats, contradictions, saving and fitting."""

from __future__ import annotations

import json
import math

import pytest

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, DataError, JobError


def schema_of(format: str = "csv", delimiter: str = ",", **features) -> Schema:
    return Schema.of(Data(format=format, delimiter=delimiter), Features.model_validate(features))


def test_criteo_brings_its_own_features():
    schema = schema_of("criteo")
    assert schema.slot_names == (*(f"C{i}" for i in range(1, 27)), *(f"I{i}" for i in range(1, 14)))
    assert [slot.bucket for slot in schema.slots] == ["none"] * 26 + ["log"] * 13
    assert schema.dense_names == tuple(f"I{i}" for i in range(1, 14))
    assert {dense.normalise for dense in schema.dense} == {"log1p"}
    assert schema_of("criteo", integers="dense").slot_names == schema.slot_names[:26]
    assert schema_of("criteo", integers="slots").dense_width == 0


def test_criteo_takes_what_is_given_instead():
    schema = schema_of("criteo", slots=["C3"], dense=["I2"])
    assert (schema.slot_names, schema.dense_names) == (("C3",), ("I2",))


def test_elasticctr_has_the_label_click():
    assert schema_of("elasticctr", slots=[0, 1]).labels == ("click",)


def test_names_widths_and_columns():
    slots = [{"name": "a", "column": "x"}, "b"]
    schema = schema_of("slots", labels=["click"], slots=slots, dense=[{"name": "d", "size": 3}, "b"], group="x")
    assert schema.dense_width == 4
    assert schema.columns == ("click", "x", "b", "d")
    assert schema.columns_of(["b", "z", "click", "d", "x"]) == ["click", "x", "b", "d"]
    with pytest.raises(DataError, match="no column 'd' in the data; its columns are: click, x, b"):
        schema.columns_of(["click", "x", "b"])


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({}, "'csv' needs features.slots or features.dense"),
        ({"slots": ["a", "b", "a"]}, "features.slots has 'a' more than once"),
        ({"dense": ["a", "a"]}, "features.dense has 'a' more than once"),
        ({"slots": ["a"], "labels": ["x", "x"]}, "features.labels has 'x' more than once"),
        ({"slots": ["label"]}, "slot 'label' reads the label 'label'"),
        ({"slots": [{"name": "a", "column": "label"}]}, "slot 'a' reads the label 'label'"),
        ({"dense": ["label"]}, "dense feature 'label' reads the label"),
        ({"slots": ["a"], "weight": "label"}, "features.weight is 'label', which is a label"),
        ({"slots": [{"name": "a", "separator": "→"}]}, "separator of slot 'a' must be an ASCII"),
        ({"slots": ["a"], "delimiter": "→"}, "data.delimiter must be an ASCII"),
        ({"slots": ["a"], "delimiter": '"'}, "data.delimiter must be an ASCII"),
        ({"slots": [{"name": "a", "bucket": "log"}], "keys": "raw"}, "slot 'a' has a bucket"),
        ({"dense": [{"name": "a", "size": 2}]}, "dense feature 'a' has size 2"),
        ({"format": "criteo", "slots": ["C27"]}, "no column 'C27'; it has label, I1 to I13 and C1 to C26"),
        ({"format": "criteo", "group": "user"}, "no column 'user'"),
        ({"format": "criteo", "slots": [{"name": "C1", "separator": "|"}]}, "slot 'C1' has a separator"),
        ({"format": "criteo", "keys": "raw", "slots": ["C1"]}, "no decimal keys"),
        ({"format": "elasticctr", "slots": ["1"], "labels": ["buy"]}, "one label, 'click'"),
        ({"format": "slots"}, "'slots' needs features.slots"),
        ({"format": "mine:Reader"}, "'mine:Reader' needs features.slots"),
    ],
)
def test_contradictions_are_refused(job, message):
    with pytest.raises(JobError) as caught:
        schema_of(**job)
    assert message in str(caught.value)


def test_one_column_may_serve_several_purposes():
    schema = schema_of(
        slots=[{"name": "a", "column": "x"}, {"name": "h", "column": "x", "pooling": "sequence"}], dense=["x"]
    )
    assert schema.parser(columns=["label", "x"]).parse(b"1,5\n").n == 1


def test_saved_and_read_again():
    slots = [{"name": "a", "separator": "|", "pooling": "sequence", "admission": {"count": 3}}, "b"]
    schema = schema_of(delimiter=";", slots=slots, dense=[{"name": "d", "normalise": "minmax"}], time="t", keys="raw")
    schema = schema.fitted({"d": (1.5, 2.5)})
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict(), allow_nan=False)))
    assert again == schema


def test_damaged_schemas_are_refused():
    saved = schema_of(slots=["a"]).to_dict()
    without = {key: value for key, value in saved.items() if key != "slots"}
    for damaged in (saved | {"version": 9}, without, saved | {"slots": [{"name": "a b"}]}, saved | {"dense": 3}):
        with pytest.raises(CheckpointError):
            Schema.from_dict(damaged)


def test_fitting():
    dense = [{"name": "a", "normalise": "standard"}, {"name": "b", "normalise": "minmax", "center": 4}, "c"]
    schema = schema_of(dense=dense)
    assert schema.needs_fit
    columns = ["label", "a", "b", "c"]
    with pytest.raises(ValueError, match="no center and spread yet: a, b"):
        schema.parser(columns=columns)
    raw = schema.unnormalised().parser(columns=columns).parse(b"1,5,6,7\n0,,2,\n")
    assert raw.dense.tolist()[0] == [5.0, 6.0, 7.0]
    assert [math.isnan(value) for value in raw.dense.tolist()[1]] == [True, False, True]
    fitted = schema.fitted({"a": (1.0, 2.0), "b": (0.0, 8.0)})
    assert not fitted.needs_fit
    assert fitted.parser(columns=columns).parse(b"1,5,6,0\n").dense.tolist() == [[2.0, 0.25, 0.0]]
    with pytest.raises(ValueError, match="no statistics for the dense feature 'b'"):
        schema.fitted({"a": (1.0, 2.0)})


def test_statistics_are_not_needed_where_the_job_gives_them():
    schema = schema_of(dense=[{"name": "a", "normalise": "standard", "center": 1, "spread": 2}])
    assert not schema.needs_fit
    assert schema.fitted({}) == schema
