"""`clickline up`: the whole chain on this machine: demo data, training, a version, its delivery to a cube."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickline.cli.output import AsJson, Overrides, errors, print_json, say

if TYPE_CHECKING:
    from clickline.train.watching import Watcher

DEMO = {"model.hidden": "[64, 32]", "train.epochs": 2, "train.log_every": 50}
"""Enough for the demo's rows, and quick on a small machine."""


def up(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job of your own; the demo if none.")] = None,
    overrides: Overrides = None,
    rows: Annotated[int, typer.Option(min=1000, help="Rows of demo data.")] = 250_000,
    state: Annotated[Path, typer.Option(help="Directory for everything that this makes.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Make demo data, train on it, publish the model, deliver it to a cube of 2 shards × 2 replicas, and read it back.

    Example: clickline up
    """
    from clickline.cli.chain import deliver
    from clickline.config.reading import read_job
    from clickline.launch.clusters import train_job
    from clickline.train.watching import Silent, watcher_for

    watcher = Silent() if as_json else watcher_for(errors())
    settings, best = list(overrides or []), None
    if job is None:
        job, truth = _demo(state, rows, watcher)
        best = truth["test"]["best_auc"]
        demo = {**DEMO, "name": "demo", "output": state}
        settings = [*(f"{key}={value}" for key, value in demo.items()), *settings]
    result = train_job(read_job(job, overrides=settings).job, fresh=True, watcher=watcher)
    delivered = deliver(result.checkpoint, state, watcher)
    if as_json:
        print_json({**result.to_dict(), "best_auc": best, "delivered": delivered})
        return
    say(f"trained on {result.rows:,} rows in {result.seconds:.1f} s")
    if "auc" in result.test:
        say(f"test AUC {result.test['auc']:.4f}, logloss {result.test['logloss']:.4f}")
    if best is not None:
        say(f"best AUC that this data allows {best:.4f}")
    say(f"model {result.checkpoint}")
    say(f"version {delivered['version']} ({delivered['kind']}) in {delivered['store']}")
    equal, rows = delivered["rows_equal"], delivered["rows_read_back"]
    say(f"read back from the cube: {equal:,} of {rows:,} rows, equal to the bit")
    say(f"try: clickline versions show {delivered['store']}")


def _demo(state: Path, rows: int, watcher: Watcher) -> tuple[str, dict[str, Any]]:
    """The demo's job file and the truth about its data, made if they are not there yet."""
    from clickline.data.synthetic import write_criteo

    data = state / "demo-data" / f"criteo-{rows}.tsv"
    truth = data.with_suffix(".json")
    if not truth.exists():
        watcher.begin(f"making {rows:,} rows of demo data")
        data.parent.mkdir(parents=True, exist_ok=True)

        def progress(done: int) -> None:
            watcher.advance(share=done / rows, facts={"rows": f"{done:,}"})

        try:
            write_criteo(data, rows=rows, seed=1, test_rows=rows // 5, force=True, progress=progress)
        finally:
            watcher.end()
    return str(data.with_suffix(".job.yaml")), json.loads(truth.read_text(encoding="utf-8"))
