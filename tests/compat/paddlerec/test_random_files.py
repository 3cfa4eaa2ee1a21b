"""Nonsense in place of PaddleRec's files: a job comes out, or a JobError, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from clickline.compat.paddlerec.job_files import read_job_file, read_paddlerec_job
from clickline.errors import JobError
from support.fuzz.budget import bounded, budgeted
from support.paddlerec.documented import FILES
from support.paddlerec.zoo_configs import HYPER_PARAMETERS, flat_config

FIRST = yaml.safe_load((FILES / "single_config.yaml").read_text())
BACKEND = yaml.safe_load((FILES / "k8s_ps_backend.yaml").read_text())
WORDS = st.sampled_from(
    ["runner", "phase", "mode", "dataset", "workspace", "hyper_parameters", "name", "class", "train", "submit", "", "a"]
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 10**30), st.floats(), st.text(max_size=8), WORDS, st.just("{workspace}/x")
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


def replaced(value: Any, data: st.DataObject) -> Any:
    """The value with something else somewhere in it."""
    inside = value if isinstance(value, dict | list) and value else None
    if inside is None or data.draw(st.integers(0, 3)) == 0:
        return data.draw(VALUES)
    key = data.draw(st.sampled_from(list(inside) if isinstance(inside, dict) else range(len(inside))))
    copy = inside.copy()
    copy[key] = replaced(inside[key], data)
    return copy


def read(directory: Path, config: Any, backend: Any = None) -> None:
    file, beside = directory / "config.yaml", directory / "backend.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    beside.write_text(yaml.safe_dump(backend), encoding="utf-8")
    with bounded("config.yaml of PaddleRec") as tally:
        try:
            found = read_paddlerec_job(str(file), backend=None if backend is None else str(beside))
        except JobError as error:
            assert error.errors
            tally.refused += 1
            return
    assert found.translated is not None
    assert yaml.safe_load(found.translated.text(source="config.yaml"))
    tally.accepted += 1


@given(config=VALUES)
@budgeted
def test_any_yaml_is_read_or_refused(tmp_path: Path, config: Any) -> None:
    read(tmp_path, config)


@given(data=st.data())
@budgeted(default=120)
def test_a_config_with_something_else_in_it_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(list(HYPER_PARAMETERS)))
    read(tmp_path, replaced(data.draw(st.sampled_from([FIRST, flat_config(model)])), data))


@given(data=st.data())
@budgeted
def test_a_backend_with_something_else_in_it_is_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    config = FIRST | {"runner": [FIRST["runner"][0] | {"class": "cluster_train"}]}
    read(tmp_path, config, replaced(BACKEND, data))


@given(text=st.text(alphabet="runep:-[]{}&*!#'\"\n 01", max_size=60))
@budgeted
def test_any_text_is_read_or_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("runner:" + text, encoding="utf-8")
    try:
        read_job_file(str(file))
    except JobError as error:
        assert error.errors
