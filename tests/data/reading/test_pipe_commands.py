"""Files that are sent through a command of the user's own before they are parsed."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from clickline.config.data import Data
from clickline.data.leasing.pieces import split_into_pieces
from clickline.data.sources.pipe_command import piped
from clickline.errors import DataError


def through(command: str, path: Path, **options: int) -> bytes:
    with path.open("rb") as raw:
        return b"".join(piped(raw, command=command, path=str(path), **options))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.tsv"
    path.write_bytes(b"".join(b"%d\tabc\n" % number for number in range(100_000)))
    return path


def test_what_the_command_prints_is_the_text(log: Path) -> None:
    expected = subprocess.run(["cut", "-f", "1", str(log)], capture_output=True, check=True).stdout
    assert through("cut -f 1", log) == expected
    assert through("cut -f 1", log, offset=12_345) == expected[12_345:]


def test_the_command_knows_the_path(log: Path) -> None:
    assert through('cat > /dev/null; printf %s "$CLICKLINE_FILE"', log) == str(log).encode()


def test_a_command_need_not_read_everything(log: Path) -> None:
    assert through("head -n 2", log) == b"0\tabc\n1\tabc\n"


def test_a_command_that_fails_is_an_error_with_its_words(log: Path) -> None:
    with pytest.raises(DataError, match=r"failed for '.*log.tsv' with exit code 3: no such column"):
        through("cat; echo no such column >&2; exit 3", log)


def test_an_output_that_became_shorter_is_not_taken_for_its_end(log: Path) -> None:
    with pytest.raises(DataError, match=r"made 7 bytes of .* but reading should resume at 100"):
        through("head -c 7", log, offset=100)


def test_a_reader_that_stops_leaves_no_process(log: Path, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with log.open("rb") as raw:
        pieces = piped(raw, command=f"echo $$ > {note}; (sleep 600) & cat; sleep 600", path=str(log))
        next(pieces)
        group = int(note.read_text())
        pieces.close()
    until = time.monotonic() + 10
    while time.monotonic() < until:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
    raise AssertionError("the command's processes are still there")


def test_a_file_that_is_piped_is_one_piece(log: Path) -> None:
    whole = split_into_pieces(Data(train=[str(log)]), [str(log)], piece_bytes=100_000, trainers=2)
    one = split_into_pieces(Data(train=[str(log)], pipe_command="cat"), [str(log)], piece_bytes=100_000, trainers=2)
    assert len(whole) > 1
    assert len(one) == 1
