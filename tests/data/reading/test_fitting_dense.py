"""Statistics for standard and minmax come from the first training rows, and from present values only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.normalization import fit
from clickline.data.schema import Schema
from clickline.errors import DataError

DATA = Data(format="csv", threads=2, block_bytes=4096)


def schema(*dense: dict[str, object]) -> Schema:
    return Schema.of(DATA, Features.model_validate({"slots": ["user"], "dense": list(dense)}))


def log(path: Path, values: list[float | None]) -> list[str]:
    lines = (f"1,u{row},{'' if value is None else value}\n" for row, value in enumerate(values))
    path.write_text("label,user,price\n" + "".join(lines))
    return [str(path)]


def column(normalise: str, **more: float) -> dict[str, object]:
    return {"name": normalise, "column": "price", "normalise": normalise, **more}


def found(fitted: Schema) -> list[tuple[float | None, float | None]]:
    return [(dense.center, dense.spread) for dense in fitted.dense]


def test_mean_deviation_and_range(tmp_path: Path) -> None:
    values = [None if row % 3 == 0 else 1e5 + row * 0.5 for row in range(9000)]
    present = np.array([value for value in values if value is not None])
    fitted = fit(DATA, schema(column("standard"), column("minmax"), column("log1p")), log(tmp_path / "a", values))
    (mean, deviation), (low, width), untouched = found(fitted)
    assert mean == pytest.approx(present.mean(), rel=1e-7)
    assert deviation == pytest.approx(present.std(), rel=1e-4)
    assert (low, width) == (present.min(), present.max() - present.min())
    assert untouched == (None, None)
    assert not fitted.needs_fit


def test_only_the_first_rows_count(tmp_path: Path) -> None:
    paths = log(tmp_path / "a", [1, 2, 3, 1000, 5000])
    assert found(fit(DATA, schema(column("minmax")), paths, rows=3)) == [(1, 2)]


def test_what_the_job_gives_is_kept(tmp_path: Path) -> None:
    paths = log(tmp_path / "a", [1, 2, 3])
    assert found(fit(DATA, schema(column("minmax", center=-5)), paths)) == [(-5, 2)]
    whole = schema(column("standard", center=1, spread=2))
    assert fit(DATA, whole, ["nowhere"]) is whole


def test_constant_column(tmp_path: Path) -> None:
    paths = log(tmp_path / "a", [4, 4, 4])
    assert found(fit(DATA, schema(column("standard"), column("minmax")), paths)) == [(4, 1), (4, 1)]


def test_column_without_values(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no value of 'standard' in the rows that standard is fitted on; raise"):
        fit(DATA, schema(column("standard")), log(tmp_path / "a", [None, None]))
