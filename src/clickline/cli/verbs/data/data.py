"""`clickline data`: logs made from known models, each with the best AUC that it allows and a job that trains on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from clickline.cli.shared.output import AsJson, errors, print_json, say
from clickline.cli.verbs.data import import_

if TYPE_CHECKING:
    from clickline.data.synthetic.log_description import WrittenLog
    from clickline.data.synthetic.log_writer import Compression, WriteOptions

app = typer.Typer(help="Make synthetic logs whose best possible AUC is known.", no_args_is_help=True)
app.add_typer(import_.app, name="import")

Count = Annotated[int, typer.Option("--rows", min=2, help="Rows in all, those of the test included.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same bytes.")]
Test = Annotated[
    int | None, typer.Option("--test-rows", min=0, help="The last rows, kept for the test; a fifth if not given.")
]
Ids = Annotated[int, typer.Option("--ids", help="About how many distinct values the categories have in all.")]
Files = Annotated[int, typer.Option("--files", min=1, help="Files that the training rows are spread over.")]
Compress = Annotated[Literal["none", "gzip", "zstd"], typer.Option("--compress", help="none, gzip or zstd.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]


def _out(suffix: str) -> Any:
    return typer.Option("--out", help=f"Where to: X{suffix} gives X.train{suffix}, X.test{suffix}, X.job.yaml, X.json.")


@app.command()
def criteo(
    rows: Count = 200_000,
    seed: Seed = 1,
    out: Annotated[Path, _out(".tsv")] = Path("demo/criteo.tsv"),
    test_rows: Test = None,
    ids: Ids = 5_500_000,
    files: Files = 1,
    compress: Compress = "none",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a log in the raw Criteo format.

    Example: clickline data criteo --rows 200000 --out demo/criteo.tsv
    """
    from clickline.data.synthetic import write_criteo

    options = _options(rows, test_rows, files=files, compress=compress, force=force)
    _make(partial(write_criteo, out, rows=rows, seed=seed, ids=ids, **options), rows, as_json=as_json)


@app.command()
def movielens(
    rows: Count = 200_000,
    seed: Seed = 1,
    out: Annotated[Path, _out(".csv")] = Path("demo/movielens.csv"),
    test_rows: Test = None,
    files: Files = 1,
    compress: Compress = "none",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a CSV log of movies shown to users, with two labels and what each user liked before.

    The job that comes with it trains DIN on the histories. For both labels:
    --set model.name=mmoe --set model.params={} --set features.labels=[label,finish]

    Example: clickline data movielens --rows 200000 --out demo/movielens.csv
    """
    from clickline.data.synthetic import write_movielens

    options = _options(rows, test_rows, files=files, compress=compress, force=force)
    _make(partial(write_movielens, out, rows=rows, seed=seed, **options), rows, as_json=as_json)


@app.command()
def slots(
    rows: Count = 200_000,
    seed: Seed = 1,
    out: Annotated[Path, _out(".txt")] = Path("demo/slots.txt"),
    test_rows: Test = None,
    files: Files = 1,
    compress: Compress = "none",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Make a log of slot text, as PaddleRec reads it: name:value, some slots with several values.

    Example: clickline data slots --rows 200000 --out demo/slots.txt
    """
    from clickline.data.synthetic import write_slots

    options = _options(rows, test_rows, files=files, compress=compress, force=force)
    _make(partial(write_slots, out, rows=rows, seed=seed, **options), rows, as_json=as_json)


def _options(rows: int, test_rows: int | None, *, files: int, compress: Compression, force: bool) -> WriteOptions:
    test = rows // 5 if test_rows is None else test_rows
    return {"test_rows": test, "files": files, "compress": compress, "force": force}


def _make(write: Callable[..., WrittenLog], rows: int, *, as_json: bool) -> None:
    """Write a log with a progress bar, and show what it has become."""
    with _progress(rows) as progress:
        written = write(progress=progress)
    _show(written, as_json=as_json)


@contextmanager
def _progress(rows: int) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on a terminal."""
    console = errors()
    if not console.is_terminal:
        yield None
        return
    columns = (BarColumn(bar_width=None), TextColumn("{task.percentage:>3.0f}%"), TimeElapsedColumn())
    with Progress(*columns, TextColumn("ETA"), TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task("", total=rows)
        yield lambda done: bar.update(task, completed=done)


def _show(written: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(written)
        return
    for what in ("train", "test"):
        for path in written["files"][what]:
            say(f"{what}: {path}")
    scored = "test" if written["test"] else "train"
    score = written[scored]
    best = "" if score["best_auc"] is None else f", best AUC that any model can have there {score['best_auc']:.4f}"
    say(f"{written['rows']:,} rows, click rate of the {scored} rows {score['ctr']:.4f}{best}")
    say(f"next: clickline train {written['files']['job']}")
