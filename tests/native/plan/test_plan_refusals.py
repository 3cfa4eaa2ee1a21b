"""A plan refuses what contradicts itself, and says what it got, what it expected and where."""

from __future__ import annotations

import numpy as np
import pytest

from clickline._native import Plan

KEYS, LABELS = np.arange(6, dtype=np.uint64), np.zeros(3, np.float32)
OFFSETS = np.arange(7, dtype=np.int64)
GOOD = {"keys": KEYS, "offsets": None, "columns": 2, "select": [0, 1], "pooling": [0, 0], "labels": LABELS}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"keys": KEYS[:5]}, r"3 rows \(the length of labels\) \* 2 columns = 6 keys, got 5"),
        ({"keys": KEYS.astype(np.int64)}, r"keys must be C-contiguous uint64 \[any\], got int64 \[6\]"),
        ({"keys": np.arange(12, dtype=np.uint64)[::2]}, r"keys must be C-contiguous .* not contiguous"),
        ({"keys": KEYS.reshape(3, 2)}, r"keys must be .* got uint64 \[3, 2\]"),
        ({"labels": LABELS.astype(np.float64)}, r"labels must be float32 \[any\], got float64 \[3\]"),
        ({"labels": LABELS[:2]}, r"2 rows \(the length of labels\)"),
        ({"offsets": OFFSETS[:-1]}, r"offsets must have rows \* columns \+ 1 = 7 entries, got 6"),
        ({"offsets": OFFSETS[:0]}, r"offsets must have"),
        ({"offsets": OFFSETS.astype(np.int32)}, r"offsets must be C-contiguous int64 \[any\], got int32 \[7\]"),
        ({"offsets": OFFSETS + 1}, r"offsets must start with 0, got 1"),
        ({"offsets": np.array([0, 1, 2, 3, 4, 5, 7])}, r"offsets must end with the number of keys, 6, got 7"),
        ({"offsets": np.array([0, 1, 5, 3, 4, 5, 6])}, r"offsets\[3\] = 3 is below offsets\[2\] = 5"),
        ({"offsets": np.array([0, 1, -5, 3, 4, 5, 6])}, r"offsets\[2\] = -5 is below offsets\[1\] = 1"),
        ({"columns": 0}, r"columns must be 1 to 65536, got 0"),
        ({"columns": -1}, r"columns must be 1 to 65536, got -1"),
        ({"columns": 70_000}, r"columns must be 1 to 65536, got 70000"),
        ({"select": [0, 2]}, r"select holds column 2, but there are only columns 0 to 1"),
        ({"select": [-1, 0]}, r"select holds column -1"),
        ({"select": [1, 1]}, r"select holds column 1 twice"),
        ({"select": [], "pooling": []}, r"select names no column"),
        ({"pooling": [0]}, r"one entry per selected column, 2, got 1"),
        ({"pooling": [0, 3]}, r"0 \(sum\), 1 \(mean\) or 2 \(max\), got 3"),
        ({"sequence_length": -1}, r"sequence_length must not be negative, got -1"),
        ({"sequence_length": 4}, r"exactly one selected column, got 2"),
        ({"sequence_length": 2**40, "select": [0], "pooling": [0]}, r"sequence_length 1099511627776 times 3 rows"),
        ({"threads": 0}, r"threads must be at least 1, got 0"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(changed: dict[str, object], message: str) -> None:
    Plan(**GOOD)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        Plan(**(GOOD | changed))  # type: ignore[arg-type]


def test_arrays_of_the_wrong_shape_are_refused() -> None:
    plan = Plan(KEYS, None, 2, [0, 1], [0, 0], LABELS)
    rows, out, back = np.ones((6, 4), np.float32), np.zeros((3, 2, 4), np.float32), np.zeros((6, 4), np.float32)
    plan.gather(rows, out)
    with pytest.raises(ValueError, match=r"rows must be C-contiguous float32 \[6, any\], got float32 \[5, 4\]"):
        plan.gather(rows[:5], out)
    with pytest.raises(ValueError, match=r"out must be C-contiguous float32 \[3, 2, 4\], got float32 \[3, 2, 3\]"):
        plan.gather(rows, np.zeros((3, 2, 3), np.float32))
    with pytest.raises(ValueError, match=r"not contiguous"):
        plan.gather(rows, np.zeros((3, 4, 2), np.float32).transpose(0, 2, 1))
    with pytest.raises(ValueError, match=r"out must be .* float32 .* got float64"):
        plan.gather(rows, out.astype(np.float64))
    with pytest.raises(ValueError, match=r"rows must be at least 1 wide"):
        plan.gather(rows[:, :0].copy(), out)
    with pytest.raises(ValueError, match=r"grad must be .* \[3, 2, 4\], got float32 \[2, 2, 4\]"):
        plan.scatter(out[:2], rows, back)
    with pytest.raises(ValueError, match=r"out must be .* \[6, 4\], got float32 \[3, 4\]"):
        plan.scatter(out, rows, back[:3])
    with pytest.raises(ValueError, match=r"out must not share memory with rows"):
        plan.scatter(out, rows, rows)
    with pytest.raises(ValueError, match=r"threads must be at least 1, got -3"):
        plan.gather(rows, out, -3)
    with pytest.raises(ValueError, match=r"only a plan with sequence_length > 0 has lengths"):
        plan.lengths  # noqa: B018
    frozen = out.copy()
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        plan.gather(rows, frozen)
    plan.scatter(frozen, rows, back)  # what is only read may be read-only
