"""Criteo's Display Advertising Challenge, as Kaggle had it: raw lines stay as they are, malformed ones are left out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from clickline._native import Parser
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.data.importers.downloads import Progress, blocks, located, taken
from clickline.data.importers.import_output import Imported, writing
from clickline.data.importers.malformed import Malformed
from clickline.data.schema import Schema

_NAMES = ("train.txt", "train.txt.gz", "train.txt.zst", "dac.tar.gz")
_EXPECTED = (
    "expected is train.txt of Criteo's Display Advertising Challenge (plain, .gz, .zst, or dac.tar.gz with it inside): "
    "40 columns separated by tabs, the label first; test.txt has no labels (Criteo AI Lab and Kaggle offer it)"
)
_JOB = {"name": "criteo", "data": {"format": "criteo"}, "model": {"name": "deepfm"}}


def import_criteo(
    source: str,
    out: Path,
    *,
    test_share: float = 0.2,
    rows: int | None = None,
    force: bool = False,
    progress: Progress = lambda share: None,
) -> Imported:
    """Write train.tsv, test.tsv and job.yaml below `out`, of the first `rows` rows or of all."""
    files = located(source, names=_NAMES, expected=_EXPECTED)
    parser = Schema.of(Data(), Features()).parser()
    malformed = Malformed(path=files[0].path, expected=_EXPECTED)
    line = 0
    with writing(out, source=files, suffix="tsv", test_share=test_share, force=force) as written:
        for block in blocks(files[0], member="train.txt", expected=_EXPECTED, progress=progress):
            parsed = parser.parse(block)
            good = written.count + parsed.n
            # The usual case: a block of good rows only is written as it is, without being split into lines.
            if parsed.n == parsed.lines and (rows is None or good <= rows):
                written.add(block, parsed.n)
            else:
                judge = partial(_sound, parser, block_start=line, rows=good, malformed=malformed)
                wanted = None if rows is None else rows - written.count
                sound = taken(block.split(b"\n")[:-1], wanted=wanted, judge=judge)
                written.add(b"".join(text + b"\n" for text in sound), len(sound))
            line += parsed.lines
            if written.count == rows:
                break
        malformed.check(written.count, end=True)
        return written.publish(_JOB, bad=malformed.count, first_bad=malformed.first)


def _sound(
    parser: Parser, lines: list[bytes], place: int, *, block_start: int, rows: int, malformed: Malformed
) -> list[bytes]:
    """The lines that are rows. The parser is the judge, the same that will read them for training.

    `rows` are the good ones up to the end of the block: if too few for what is found here, it stops at once.
    """
    parsed = parser.parse(b"".join(line + b"\n" for line in lines))
    if parsed.bad > len(parsed.errors):  # more than it tells one by one
        # The parser describes a limited number of errors per call: each half is parsed again, until all are described.
        half = len(lines) // 2
        halves = ((lines[:half], place), (lines[half:], place + half))
        again = partial(_sound, parser, block_start=block_start, rows=rows, malformed=malformed)
        return [text for part, start in halves for text in again(part, start)]
    for line, reason in parsed.errors:
        malformed.add(block_start + place + line, reason)
    malformed.check(rows)
    bad = {line - 1 for line, _ in parsed.errors}
    return [text for at, text in enumerate(lines) if at not in bad and text not in (b"", b"\r")]
