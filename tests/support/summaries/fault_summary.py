"""What all tests that hurt a cluster came to: printed after the last one, whichever process ran it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from support.summaries.counts_file import write_counts


def write_faults(terminalreporter: Any) -> None:
    total: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":
                continue
            for name, found in getattr(report, "user_properties", ()):
                total.update(found if name == "cluster run" else {})
    if not total["runs"]:
        return
    write_counts("faults in clusters", total)
    terminalreporter.section("faults in clusters")
    terminalreporter.line(
        f"{total['faults']} faults injected into {total['runs']} runs: {total['completed']} completed, "
        f"{total['ended']} ended as they should"
    )
    terminalreporter.line(
        f"{total['rows']:,} rows trained, {total['lost']:,} lost, {total['repeated']:,} repeated; "
        f"{total['pushes']:,} pushes lost with servers, {total['retries']:,} requests retried"
    )
