"""What a run came to, in words."""

from __future__ import annotations

from typing import Any, TextIO


def write(result: dict[str, Any], out: TextIO) -> None:
    """Kinds, books, and broken promises with what happened before them."""
    counts = result["counts"]

    def count(name: str) -> int:
        return int(counts.get(name, 0))

    lines = ["", f"{result['faults']} faults in {result['seconds'] / 60:.1f} minutes, seed {result['seed']}"]
    for kind, facts in result["kinds"].items():
        outcomes = ", ".join(f"{how} {times}" for how, times in sorted(facts["outcomes"].items()))
        recovery = facts["recovery"]
        after = f"; whole again after {recovery['median']:g} s, at most {recovery['longest']:g} s" if recovery else ""
        lines.append(f"  {facts['count']:5d}  {kind}: {outcomes}{after}")
    lines += [
        f"planned {count('planned')}, not possible at their moment {count('not_now')}, not reached "
        f"{count('not_reached')}",
        "",
        f"training: {count('runs')} runs, {count('rows_in'):,} rows in = {count('rows_trained'):,} trained - "
        f"{count('rows_repeated'):,} repeats stated; {count('pushes_lost'):,} pushes lost with servers, "
        f"{count('resumed')} times resumed, {count('pieces_set_aside')} pieces set aside, {count('hung')} hung",
        f"serving: {count('answers'):,} answers recomputed ({count('answers_without_retries'):,} without retries), "
        f"{count('mixed')} mixed, {count('wrong')} wrong",
        f"failed with a replica alive: {count('failed with retries')} with the client's retries, "
        f"{count('failed without retries')} without; cut off with a killed worker "
        f"{count('cut_off_with_a_killed_worker')}; failed while nobody was there "
        f"{count('failed_while_nobody_was_there')}, in {count('absences')} absences",
        f"delivery: {count('published')} published, {count('delivered')} delivered, "
        f"{count('lost_deliveries')} lost; {count('publications_refused')} publications refused and repeated",
    ]
    lines += [f"note: {note}" for note in result["notes"]]
    for broken in result["broken"]:
        lines += ["", f"PROMISE BROKEN after {broken['at']} s: {broken['promise']}: {broken['detail']}"]
        lines += [f"    {line}" for line in broken["before"][-12:]]
    lines += ["", f"{len(result['broken'])} promises broken" if result["broken"] else "every promise held"]
    lines += [f"seed {result['seed']}: CHAOS_SEED={result['seed']} make chaos draws the same faults"]
    print("\n".join(lines), file=out, flush=True)
