"""Messages between processes: what is packed comes out again, and nonsense is refused before memory is taken for it."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clickline.errors import PeerError
from clickline.ps.protocol.framing import Arrays, pack
from clickline.ps.protocol.framing import unpack as unpack_as


def unpack(message: bytes) -> tuple[dict[str, Any], Arrays]:
    return unpack_as(message, dict)


def sent(facts: dict[str, Any], arrays: dict[str, Any] | None = None) -> bytes:
    return b"".join(bytes(buffer) for buffer in pack(facts, arrays))


def test_facts_and_arrays_come_out_as_they_went_in() -> None:
    arrays = {
        "keys": np.array([1, 2**64 - 1], np.uint64),
        "rows": np.arange(6, dtype=np.float32).reshape(2, 3),
        "slots": np.array([7], np.uint16),
        "none": np.zeros((0, 4), np.float32),
        "step": np.array(3.0, np.float32),
    }
    facts, found = unpack(sent({"name": "x", "n": 3}, arrays))
    assert facts == {"name": "x", "n": 3}
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_an_array_that_is_not_contiguous_is_sent_as_what_it_shows() -> None:
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(unpack(sent({}, {"column": matrix[:, 1]}))[1]["column"], matrix[:, 1])


def message(arrays: list[Any], body: bytes = b"") -> bytes:
    head = json.dumps({"facts": {}, "arrays": arrays}).encode()
    return struct.pack("<I", len(head)) + head + bytes(-(4 + len(head)) % 8) + body


@pytest.mark.parametrize(
    "arrays",
    [
        [["a", "float32", [2**40]]],
        [["a", "float32", [2**33, 2**33]]],
        [["a", "float32", [-1]]],
        [["a", "float32", ["x"]]],
        [["a", "object", [1]]],
        [["a", "float32"]],
        "nothing",
    ],
)
def test_sizes_and_types_are_checked_before_an_array_is_made(arrays: Any) -> None:
    with pytest.raises(PeerError, match="cannot be read"):
        unpack(message(arrays, bytes(16)))


@given(st.binary(max_size=64))
def test_random_bytes_are_refused_not_believed(body: bytes) -> None:
    try:
        facts, arrays = unpack(body)
    except PeerError:
        return
    assert isinstance(facts, dict)
    assert isinstance(arrays, dict)


@given(st.data())
def test_a_message_cut_short_anywhere_is_refused(data: st.DataObject) -> None:
    whole = sent({"n": 1}, {"rows": np.ones((3, 3), np.float32)})
    with pytest.raises(PeerError):
        unpack(whole[: data.draw(st.integers(0, len(whole) - 5))])


@pytest.mark.parametrize(("wire", "error"), [("fp16", 2**-11), ("bf16", 2**-8)])
@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6, 1e12])
def test_numbers_of_any_size_keep_their_digits_in_sixteen_bits(wire: str, error: float, size: float) -> None:
    values = (np.random.default_rng(1).uniform(0.5, 1.0, (50, 3)) * size).astype(np.float32)
    body = b"".join(bytes(part) for part in pack({}, {"v": values, "w": values}, wire=wire, halved=("v",)))
    found = unpack(body)[1]
    assert found["v"].dtype == found["w"].dtype == np.float32
    np.testing.assert_array_equal(found["w"], values)
    np.testing.assert_allclose(found["v"], values, rtol=error)
    assert len(sent({}, {"v": values, "w": values})) - len(body) > 50 * 3 * 2 - 100


@pytest.mark.parametrize("wire", ["fp16", "bf16"])
@pytest.mark.parametrize("values", [[], [0.0, 0.0], [np.inf, 1.0], [np.nan, 1.0]])
def test_what_has_no_size_comes_out_as_it_went_in(wire: str, values: list[float]) -> None:
    array = np.array(values, np.float32)
    body = b"".join(bytes(part) for part in pack({}, {"v": array}, wire=wire, halved=("v",)))
    np.testing.assert_array_equal(unpack(body)[1]["v"], array)


@pytest.mark.parametrize("scale", [[], [0], [-1.0], ["x"], [float("nan")], [1.0, 2.0]])
def test_a_scale_that_is_none_is_refused(scale: list[Any]) -> None:
    with pytest.raises(PeerError, match="cannot be read"):
        unpack(message([["a", "bf16", [4], *scale]], bytes(8)))
