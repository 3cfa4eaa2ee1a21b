"""What all tests that hurt a cluster came to: printed after the last one, whichever process ran it.

A test of a promise notes its counts with `record_property("counts", text)`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    total: Counter[str] = Counter()
    counts: list[str] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":
                continue
            for name, found in getattr(report, "user_properties", ()):
                total.update(found if name == "cluster run" else {})
                counts += [found] if name == "counts" else []
    if counts:
        terminalreporter.section("promises of the cube")
        for line in counts:
            terminalreporter.line(line)
    if not total["runs"]:
        return
    terminalreporter.section("faults in clusters")
    terminalreporter.line(
        f"{total['faults']} faults injected into {total['runs']} runs: {total['completed']} completed, "
        f"{total['ended']} ended as they should"
    )
    terminalreporter.line(
        f"{total['rows']:,} rows trained, {total['lost']:,} lost, {total['repeated']:,} repeated; "
        f"{total['pushes']:,} pushes lost with servers, {total['retries']:,} requests retried"
    )
