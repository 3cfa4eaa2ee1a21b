"""What all tests of delivery and of serving came to: printed after the last one, whichever process ran it.

Tests note their counts with `record_property(NAME, {...})`; counts of the same name are added up. What cannot be added
up is noted as a line of its own, with `record_property("counts", text)`, or "serving counts".
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from clickline.files import failpoints
from support.summaries.counts_file import write_counts

READ = "{batches:,} batches read, {mixed} of two versions, {wrong_rows} wrong rows, {failed} failed requests"
LINES: dict[str, tuple[str, ...]] = {
    "readers over switches": (
        "{switches} switches ({bases} bases, {deltas} deltas, {rollbacks} rollbacks), {servers_killed} servers and "
        "{agents_killed} agents killed, {readers} readers: " + READ + ", {versions} of {published} versions seen",
        "the same without one version for a batch: {unpinned_batches:,} batches read, {unpinned_mixed} of two versions",
    ),
    "failure points": (
        "processes killed at {points} failure points of {known}: {completed} deliveries completed after it; meanwhile "
        + READ
        + ", {while_dead:,} batches while they were dead",
    ),
    "publishers killed": ("publishers killed at {points} failure points of {known}: {torn} versions lost or torn",),
    "rollback": ("{rollbacks} rollbacks, {downloads} downloads, {seconds:.3f} s in all; meanwhile " + READ,),
    "histories": (
        "{histories} histories of a base and deltas ({deltas} deltas, {deleted} keys deleted): {rows:,} rows read from "
        "servers as a full base has them",
    ),
    "dead replicas": (
        "{deaths} replicas dead for {delivered} deliveries: {old} old versions served when back, {refused} reads "
        "refused before they had caught up; meanwhile " + READ,
    ),
}
SERVING: dict[str, tuple[str, ...]] = {
    "predictions over switches": (
        "{switches} switches ({bases} bases, {deltas} deltas, {rollbacks} rollbacks), {servers_killed} servers, "
        "{agents_killed} agents and {workers_killed} predictor workers killed, {clients} clients: {answers:,} answers "
        "recomputed from the version they name, {mixed} of two versions, {wrong} wrong, {versions} of {published} "
        "versions seen; {failed} requests failed for clients that ask again, {failed_once} of {asked_once:,} that were "
        "asked once ({lost_once} lost with a killed worker, {refused_once} refused)",
        "the same without one version for a request: {unpinned_answers:,} answers over {unpinned_switches} switches, "
        "{unpinned_mixed} of two versions",
    ),
    "hostile clients": (
        "{requests} hostile requests, {calls} hostile gRPC calls and {silent} silent connections: after each the same "
        "worker answered others, rightly; {described} requests drawn from its OpenAPI page, no answer outside that",
    ),
    "zoo over HTTP": ("{models} models of the zoo over HTTP: {answers} answers of {rows} rows, all as the trainer's",),
}


def write_deliveries(terminalreporter: Any) -> None:
    totals: dict[str, Counter[str]] = {name: Counter() for name in LINES | SERVING}
    told: dict[str, list[str]] = {"counts": [], "serving counts": []}
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "teardown":
                continue
            for name, found in getattr(report, "user_properties", ()):
                if name in totals:
                    totals[name].update(found)
                if name in told:
                    told[name].append(found)
    if not any(totals.values()) and not any(told.values()):
        return
    for name, known in (("failure points", failpoints.DELIVERING), ("publishers killed", failpoints.PUBLISHING)):
        totals[name].update({"known": len(known)} if totals[name] else {})
    for name, counts in totals.items():
        if counts:
            write_counts(name, counts)
    for title, known, own in (
        ("promises of delivery", LINES, "counts"),
        ("promises of serving", SERVING, "serving counts"),
    ):
        said = [text.format_map(totals[name]) for name, lines in known.items() for text in lines if totals[name]]
        said += told[own]
        if said:
            terminalreporter.section(title)
        for line in said:
            terminalreporter.line(line)
