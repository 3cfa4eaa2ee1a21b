"""What `clickline up` prints when the chain is up: predictions, how good they are, where everything is, what to try."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

from rich.table import Table

from clickline.cli.shared.output import results, say

_COLUMNS = 5
"""Features that are shown of each row: more do not fit on a line."""


def show(facts: dict[str, Any]) -> None:
    say(_trained(facts))
    say(f"version {facts['version']} ({facts['kind']}) in {facts['store']}")
    say("")
    results().print(_table(facts["samples"]))
    say("")
    for line in _quality(facts):
        say(line)
    say("")
    say(f"predictions  {facts['http']}  model {facts['model']}; {facts['http']}/docs says how to ask")
    say(f"versions     {facts['files']}")
    say(f"transfer     {facts['transfer']}/dict/info")
    say(f"first prediction after {facts['first_prediction_seconds']:.1f} s")
    say("")
    say("Try, in another terminal:", style="bold")
    for line in suggestions(facts):
        say(f"  {line}")
    say(
        f"Ctrl+C, or clickline down {_state(facts)}".rstrip()
        + f", stops it; clickline up goes on from {facts['state']}."
    )


def suggestions(facts: dict[str, Any]) -> Iterator[str]:
    """Commands that work as they stand."""
    features: dict[str, Any] = next((one["features"] for one in facts["samples"] if one["features"]), {})
    few = dict(list(features.items())[:3])
    body = json.dumps({"instances": [few]}, ensure_ascii=False)
    yield f"curl -s {facts['http']}/predict -d {shlex.quote(body)}"
    state = f" --state {_state(facts)}" if _state(facts) else ""
    yield f"clickline predict {shlex.quote(json.dumps(few, ensure_ascii=False))}{state}"
    yield f"clickline status {_state(facts)}".rstrip()
    yield f"clickline bench serve{state}"
    yield f"clickline train {shlex.quote(facts['run'])}/job.json --resume --set train.epochs=3"
    yield f"clickline publish {shlex.quote(facts['run'])} --to {shlex.quote(facts['store'])}   # served a moment later"


def _trained(facts: dict[str, Any]) -> str:
    how = {"trained": "trained on", "resumed": "trained, resumed, on", "kept": "trained before on"}[facts["training"]]
    return f"{how} {facts['rows']:,} rows in {facts['seconds']:.1f} s: {facts['run']}"


def _quality(facts: dict[str, Any]) -> Iterator[str]:
    served = facts["served"]
    if served is not None and served["auc"] is not None:
        asked = f"{served['rows']:,} rows, {served['requests']:,} requests, {served['seconds']:.1f} s"
        yield f"test AUC through the server  {served['auc']:.4f}  ({asked})"
    if facts["trained_auc"] is not None:
        yield f"test AUC by the trainer      {facts['trained_auc']:.4f}"
    if facts["best_auc"] is not None:
        yield f"best that this data allows   {facts['best_auc']:.4f}"


def _table(samples: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for one in samples for name in one["features"]))[:_COLUMNS]
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, no_wrap=True)
    table.add_column("…", style="dim")
    for title in ("clicked", "probability", "version"):
        table.add_column(title, justify="right", no_wrap=True)
    for one in samples:
        cells = [_cell(one["features"].get(name)) for name in names]
        table.add_row(*cells, "…", f"{one['label']:g}", f"{one['probability']:.4f}", str(one["version"]))
    return table


def _cell(value: Any) -> str:
    return "" if value is None else f"{value!s:.20}"


def _state(facts: dict[str, Any]) -> str:
    """As an argument; nothing if it is where verbs look by themselves."""
    return "" if facts["state"] == "runs" else shlex.quote(facts["state"])
