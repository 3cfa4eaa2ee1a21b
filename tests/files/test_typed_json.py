"""Many threads may be the first to decode a message of some type, all at once."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from clickline.files.typed_json import convert_json, decode_json

# Each round has types that nobody has decoded yet, and four threads that begin together.
ROUNDS = """
import sys, threading
import msgspec
from clickline.files.typed_json import convert_json, decode_json

sys.setswitchinterval(1e-6)
TEXT = b'{"inner": {"rows": 1}, "others": [{"rows": 2}], "counts": {"a": 1}}'

def first_use(decode):
    inner = msgspec.defstruct("Inner", [("rows", int), ("name", str | None, None)])
    kind = msgspec.defstruct("Outer", [("inner", inner), ("others", list[inner]), ("counts", dict[str, int])])
    barrier, values = threading.Barrier(4), []
    def run():
        barrier.wait()
        values.append(decode(kind).others[0].rows)
    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert values == [2] * 4, values

for _ in range(400):
    first_use(lambda kind: WAY)
"""


@pytest.mark.parametrize(
    "way", ["decode_json(TEXT, kind)", "convert_json(msgspec.json.decode(TEXT), kind)"], ids=["decode", "convert"]
)
def test_threads_that_are_first_together_all_have_their_message(way: str) -> None:
    command = [sys.executable, "-c", ROUNDS.replace("WAY", way)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")


class Reply(msgspec.Struct):
    rows: int


def test_what_is_not_of_the_type_is_refused_with_its_place() -> None:
    for refused in (lambda: decode_json(b'{"rows": "many"}', Reply), lambda: convert_json({"rows": "many"}, Reply)):
        with pytest.raises(msgspec.ValidationError, match=r"Expected `int`, got `str` - at `\$.rows`"):
            refused()


def test_a_type_may_be_a_union() -> None:
    assert convert_json({"rows": 3}, Reply | None) == Reply(3)
    assert convert_json(None, Reply | None) is None
