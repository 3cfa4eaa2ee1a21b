"""`clickline up`: the whole chain on this machine. So far: demo data, training, test AUC."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.output import AsJson, Overrides, errors, print_json, say

DEMO = {
    "name": "demo",
    "model": {"name": "deepfm", "embedding_dim": 10, "hidden": [128, 64]},
    "train": {"epochs": 2, "batch_size": 512, "log_every": 50},
}


def up(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job of your own; the demo if none.")] = None,
    overrides: Overrides = None,
    rows: Annotated[int, typer.Option(min=1000, help="Rows of demo data.")] = 200_000,
    state: Annotated[Path, typer.Option(help="Directory for everything that this makes.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """Make demo data, train on it, and test the model.

    Example: clickline up
    """
    from clickline.config.reading import read_job
    from clickline.data.synthetic import write_criteo
    from clickline.train.api import train_job
    from clickline.train.watching import Silent, watcher_for

    watcher = Silent() if as_json else watcher_for(errors())
    best = None
    settings = list(overrides or [])
    if job is None:
        data = state / "demo-data" / f"criteo-{rows}.tsv"
        train, test = data.with_suffix(".train.tsv"), data.with_suffix(".test.tsv")
        truth = data.with_suffix(".json")
        if not truth.exists():
            watcher.begin(f"making {rows:,} demo rows")
            data.parent.mkdir(parents=True, exist_ok=True)
            write_criteo(data, rows=rows, seed=1, test_rows=rows // 5, force=True)
            watcher.end()
        best = json.loads(truth.read_text(encoding="utf-8"))
        demo = {**DEMO, "output": str(state), "data": {"train": [str(train)], "test": [str(test)]}}
        job_file = state / "demo.json"  # JSON is YAML
        job_file.write_text(json.dumps(demo, indent=1) + "\n", encoding="utf-8")
        job = str(job_file)
    result = train_job(read_job(job, overrides=settings).job, fresh=True, watcher=watcher)
    if as_json:
        print_json({**result.to_dict(), "truth": best})
        return
    say(f"trained on {result.rows:,} rows in {result.seconds:.1f} s")
    if "auc" in result.test:
        say(f"test AUC {result.test['auc']:.4f}, logloss {result.test['logloss']:.4f}")
    if best is not None:
        say(f"the best AUC that this data allows: {best}")
    say(f"model: {result.checkpoint}")
    say(f"next: clickline checkpoint show {result.checkpoint}")
