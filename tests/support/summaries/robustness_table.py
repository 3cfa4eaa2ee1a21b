"""The table of docs/robustness.md, made from counts: of a chaos run, and of the tests.

    python tests/support/summaries/robustness_table.py --chaos build/chaos/chaos.json --tests build/test-counts.json

What is given replaces what docs/robustness.json knew; the page is written anew from that file alone, between two marks.
A run in which a promise was broken, or that was interrupted, does not get into it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE, COUNTS = ROOT / "docs" / "robustness.md", ROOT / "docs" / "robustness.json"
BEGIN, END = "<!-- table: made by tests/support/summaries/robustness_table.py -->", "<!-- end of the table -->"

_SERVED = "no request fails, each answer is of one version and right; whole again by itself"
_DELIVERED = "no delivery is lost, requests do not notice"
_TRAINED = "every row is trained; rows repeated are stated"
PROMISES = {
    "cut: coordinator": _TRAINED,
    "cut: parameter server": _TRAINED,
    "cut: cube server": _SERVED,
    "cut: ": _DELIVERED,
    "stall: coordinator": _TRAINED,
    "stall: parameter server": _TRAINED,
    "stall: cube server": _SERVED,
    "stall: ": _DELIVERED,
    "slow: coordinator": _TRAINED,
    "slow: parameter server": _TRAINED,
    "slow: cube server": _SERVED,
    "slow: ": _DELIVERED,
    "kill: cube server": _SERVED,
    "kill: ": _DELIVERED,
    "stop: cube server": _SERVED,
    "stop: ": _DELIVERED,
    "kill worker": "no connection is refused; at most what the worker was answering is cut off",
    "stop worker": "others go on; its clients are answered when it goes on, or by another",
    "kill in training": _TRAINED,
    "stop in training": _TRAINED + "; who was replaced meanwhile changes nothing",
    "kill publisher": "the version is there whole, or not at all",
    "full disk: disk of a training": "the run is resumed when there is room; every row is trained",
    "full disk: disk of the store": "what cannot be written whole is not announced",
    "full disk: ": _DELIVERED,
    "flip in build": "nobody serves it; it is built again",
    "flip in version": "nobody serves it; it is served once it is mended",
    "flip in deployed rows": "nobody serves it; what is damaged is delivered again",
    "flip in checkpoint": "refused, exit code 6",
    "twin in training": "refused; the run's rows are exact",
    "twin of a run": "refused before it has written anything; the run's rows are exact",
    "twin of the suite": "refused, exit code 7",
    "twin: ": "refused, exit code 7",
    "hostile client": "no memory, no standstill: others are answered as always",
}
"""By the beginning of a kind's name; the first that fits."""


def rows(counts: dict[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    """Fault, how often, promised, seen, by what."""
    chaos = counts.get("chaos")
    if chaos:
        for kind, facts in sorted(chaos["kinds"].items()):
            promise = next(text for start, text in PROMISES.items() if kind.startswith(start))
            seen = ", ".join(f"{how} {times}" for how, times in sorted(facts["outcomes"].items()))
            if facts["recovery"]:
                seen += f"; whole after {facts['recovery']['median']:g} s, at most {facts['recovery']['longest']:g} s"
            yield kind, str(facts["count"]), promise, seen, "`make chaos`"
    yield from _test_rows(counts.get("tests", {}))


def _test_rows(tests: dict[str, Any]) -> Iterator[tuple[str, str, str, str, str]]:
    if found := tests.get("faults in clusters"):
        yield (
            "trainers, servers, coordinators, hosts and wires: killed, stopped, cut, garbled, doubled",
            f"{found['faults']}",
            f"{_TRAINED}; each run ends as it should",
            f"{found['runs']} runs, {found['completed']} completed, {found['ended']} ended with the error that was "
            f"expected; {found['rows']:,} rows, {found['lost']:,} lost, {found['repeated']:,} repeated",
            "`pytest tests/promises/training tests/promises/test_two_hosts.py`",
        )
    if found := tests.get("readers over switches"):
        yield (
            "cube servers and agents killed while versions switch",
            f"{found['servers_killed'] + found['agents_killed']}",
            "each batch is of one version; none fails",
            f"{found['batches']:,} batches over {found['switches']} switches, {found['mixed']} mixed, "
            f"{found['wrong_rows']} wrong rows, {found['failed']} failed",
            "`pytest tests/promises/delivery`",
        )
    if found := tests.get("failure points"):
        yield (
            "processes of the delivery killed at failure points",
            f"{found['points']}",
            "the delivery is completed after it",
            f"{found['completed']} completed; {found['mixed']} mixed, {found['failed']} failed meanwhile",
            "`pytest tests/promises/delivery/test_killed_at_every_step.py`",
        )
    if found := tests.get("publishers killed"):
        yield (
            "publishers killed at failure points",
            f"{found['points']}",
            "the version is there whole, or not at all",
            f"{found['torn']} lost or torn",
            "`pytest tests/publish`",
        )
    if found := tests.get("predictions over switches"):
        yield (
            "cube servers, agents and predictor workers killed while versions switch",
            f"{found['servers_killed'] + found['agents_killed'] + found['workers_killed']}",
            "each answer is what the version it names predicts; none is missing",
            f"{found['answers']:,} answers over {found['switches']} switches, {found.get('mixed', 0)} mixed, "
            f"{found.get('wrong', 0)} wrong, {found.get('failed', 0)} failed; of {found['asked_once']:,} asked once "
            f"{found.get('lost_once', 0)} lost with a killed worker, {found.get('refused_once', 0)} refused",
            "`pytest tests/promises/serving`",
        )


def summary(chaos: dict[str, Any]) -> list[str]:
    """The books of a chaos run, as a list."""
    counts = chaos["counts"]

    def count(name: str) -> str:
        return f"{counts.get(name, 0):,}"

    return [
        f"The last run: {chaos['faults']:,} faults in {chaos['seconds'] / 60:.0f} minutes, seed {chaos['seed']}.",
        "",
        f"- Training: {count('runs')} runs, {count('rows_in')} rows in = {count('rows_trained')} rows trained - "
        f"{count('rows_repeated')} repeats stated; {count('resumed')} times resumed.",
        f"- Serving: {count('answers')} answers, each recomputed from the version that it names: "
        f"{count('mixed')} mixed, {count('wrong')} wrong.",
        f"- Failed with a replica alive: {count('failed with retries')} with the client's retries, "
        f"{count('failed without retries')} without. Cut off with a worker that was killed while it answered: "
        f"{count('cut_off_with_a_killed_worker')}. Failed while nobody was there: "
        f"{count('failed_while_nobody_was_there')}.",
        f"- Delivery: {count('published')} versions and rollbacks, {count('delivered')} delivered, "
        f"{count('lost_deliveries')} lost.",
    ]


def page(text: str, counts: dict[str, Any]) -> str:
    """The page with its table, and what is above it, replaced."""
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    lines = [*(summary(counts["chaos"]) if counts.get("chaos") else ["No run yet."]), ""]
    lines += ["| Fault | How often | Promised | Seen | By |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows(counts)]
    return f"{head}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chaos", type=Path, help="chaos.json of a run")
    parser.add_argument("--tests", type=Path, help="what CLICKLINE_TEST_COUNTS named")
    arguments = parser.parse_args()
    counts = json.loads(COUNTS.read_text(encoding="utf-8"))
    if arguments.chaos:
        found = json.loads(arguments.chaos.read_text(encoding="utf-8"))
        if found["broken"] or "interrupted" in found["notes"]:
            print(f"{arguments.chaos}: not taken into {PAGE.name}: promises were broken, or it was interrupted")
            return 1
        counts["chaos"] = {key: found[key] for key in ("seed", "seconds", "faults", "kinds", "counts", "notes")}
    if arguments.tests and arguments.tests.exists():
        counts["tests"] = json.loads(arguments.tests.read_text(encoding="utf-8"))
    COUNTS.write_text(json.dumps(counts, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
