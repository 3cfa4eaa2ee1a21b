"""What a stranger sends may stand in a log, but neither begins a line of it nor controls a terminal."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from clickline.processes import logs


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    monkeypatch.setattr("sys.stderr", stream)
    logs.set_up("agent", 0)
    yield stream
    logging.captureWarnings(False)
    root.handlers[:] = before
    root.setLevel(level)


FORGED = "2026-01-02T03:04:05.678 INFO agent.0 all is well"


def test_a_message_is_one_line_whatever_it_quotes(written: io.StringIO) -> None:
    logging.getLogger("x").warning("no command %s", f"x\n{FORGED}\x1b[2J\r\u009b1m\u2028\u202eé")
    (line,) = written.getvalue().splitlines()
    assert line.endswith(r"WARNING agent.0 no command x\n" + FORGED + r"\x1b[2J\x0d\x9b1m\u2028\u202eé")


def test_a_traceback_keeps_its_lines_but_forges_none(written: io.StringIO) -> None:
    try:
        raise ValueError(f"x\n{FORGED}\x1b[2J")
    except ValueError:
        logging.getLogger("x").exception("a bug")
    lines = written.getvalue().split("\n")
    assert lines[0].endswith("ERROR agent.0 a bug")
    assert "Traceback (most recent call last):" in lines
    assert f" {FORGED}\\x1b[2J" in lines
    assert [line for line in lines if logs.stamp_of(line.encode())] == lines[:1]
