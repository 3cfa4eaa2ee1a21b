"""`make key-effects`: every key under every strategy, a line each; exits with 1 if one is silent."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections import Counter
from pathlib import Path

from support.key_effects.base_job import write_base
from support.key_effects.cells import Cell, cells, named_test
from support.key_effects.differences import difference
from support.key_effects.probes import STRATEGIES
from support.key_effects.traces import read_by, traced_run


def main() -> int:
    parser = argparse.ArgumentParser(prog="key_effects", description=__doc__)
    parser.add_argument("--strategies", default=",".join(STRATEGIES), help="those to walk, separated by commas")
    parser.add_argument("--output", type=Path, help="write the table to this file as well")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, contextlib.chdir(scratch):
        table = walk(Path(scratch), tuple(options.strategies.split(",")))
    text = "\n".join(str(cell) for cell in table)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text + "\n", encoding="utf-8")
    counts = Counter(cell.verdict for cell in table)
    print(text)
    print(", ".join(f"{verdict}: {count}" for verdict, count in counts.most_common()))
    return 1 if counts["silent"] else 0


def walk(scratch: Path, strategies: tuple[str, ...]) -> list[Cell]:
    """All cells, each with its proof. Data is named relative to `scratch`, which must be the working directory."""
    base = write_base(scratch)
    readers = {strategy: traced_run(base, strategy, scratch / strategy) for strategy in strategies}
    shown: dict[str, str | None] = {}
    table: list[Cell] = []
    for number, (key, strategy, judgement) in enumerate(cells(base, strategies)):
        if judgement is None and key not in shown:
            shown[key] = named_test(key) or difference(base, key, scratch / "differences" / str(number))
        table.append(judgement or _proved(key, strategy, shown[key], read_by(readers[strategy], key)))
    return table


def _proved(key: str, strategy: str, shown: str | None, readers: str | None) -> Cell:
    """Under single a run differs; under the others the same code reads the key, or a test shows it."""
    if strategy == "single":
        return Cell(key, strategy, "effect" if shown else "silent", shown or "a run does not differ")
    by_test = shown is not None and shown.startswith("tests/")
    if readers is None and not by_test:
        return Cell(key, strategy, "silent", "no process reads it, and no test shows an effect")
    proofs = [shown, readers and f"read by {readers}"]
    return Cell(key, strategy, "effect", "; ".join(proof for proof in proofs if proof))


if __name__ == "__main__":
    raise SystemExit(main())
