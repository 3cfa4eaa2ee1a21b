"""`clickline capacity`: what a table of a given shape costs in memory, measured on this machine."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from clickline.cli.shared.output import AsJson, errors, print_json, say

PUSH = 1 << 18


def capacity(
    rows: Annotated[int, typer.Option(min=1, help="Rows to measure with.")] = 1_000_000,
    dim: Annotated[int, typer.Option(min=1, max=4096, help="Length of a row's vector.")] = 16,
    optimizer: Annotated[
        Literal["sgd", "adagrad", "adam", "adamw", "ftrl"], typer.Option(help="The rule, whose state is part of a row.")
    ] = "adagrad",
    planned: Annotated[int, typer.Option(min=0, help="Rows you plan for; memory is extrapolated to it.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Fill a table and print its memory per row, beside the row's payload.

    Example: clickline capacity --rows 10000000 --dim 16 --optimizer adagrad --planned 1000000000
    """
    import numpy as np
    from rich.progress import track

    from clickline.config.tables import SparseOptimizer, Tables, TableSettings
    from clickline.train.sparse_tables import build_table

    spec = TableSettings(optimizer=SparseOptimizer(name=optimizer))
    table = build_table(dim=dim, table=spec, tables=Tables(), slots=(), seed=1)
    for start in track(range(0, rows, PUSH), "filling", console=errors(), disable=as_json):
        # odd multiplier: distinct keys, spread over all buckets
        keys = np.arange(start + 1, min(start + PUSH, rows) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        ones = np.ones(len(keys), np.float32)
        gradient = np.full((len(keys), dim), 0.01, np.float32)
        table.push(keys, gradient, ones, ones * 0, np.zeros(len(keys), np.uint16), tick=1)
    memory = table.memory()
    facts = {
        "rows": len(table),
        "dim": dim,
        "optimizer": optimizer,
        "payload_bytes_per_row": memory["payload_bytes_per_row"],
        "bytes_per_row": round(memory["total_bytes"] / len(table), 2),
        "overhead": round(memory["total_bytes"] / len(table) / memory["payload_bytes_per_row"] - 1, 4),
    }
    if planned:
        facts["planned_rows"] = planned
        facts["planned_gib"] = round(planned * memory["total_bytes"] / len(table) / 2**30, 2)
    if as_json:
        print_json(facts)
        return
    say(
        f"{facts['rows']:,} rows of dimension {dim} under {optimizer}: {facts['bytes_per_row']} bytes a row, "
        f"payload {facts['payload_bytes_per_row']} (overhead {facts['overhead']:.1%})"
    )
    if planned:
        say(f"{planned:,} rows would take {facts['planned_gib']} GiB")
