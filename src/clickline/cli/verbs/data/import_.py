"""`clickline data import`: public datasets, as downloaded, become rows and a job that is ready to train."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, errors, print_json, say, say_note

if TYPE_CHECKING:
    from clickline.data.importers import Imported

app = typer.Typer(help="Make rows and a ready job of a public dataset that you downloaded.", no_args_is_help=True)
Out = Annotated[Path, typer.Option("--out", metavar="DIRECTORY", help="Where to write.", show_default=False)]
TestShare = Annotated[float, typer.Option(min=0.001, max=0.999, help="Share of rows, the last ones, for testing.")]
Rows = Annotated[int | None, typer.Option(min=2, help="Take the first rows only, this many.", show_default=False)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite what an earlier import has written.")]


def _source(text: str) -> typer.models.ArgumentInfo:
    info: typer.models.ArgumentInfo = typer.Argument(metavar="SOURCE", help=text, show_default=False)
    return info


@app.command()
def criteo(
    source: Annotated[str, _source("train.txt, plain, .gz or .zst, or dac.tar.gz.")],
    out: Out,
    test_share: TestShare = 0.2,
    rows: Rows = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import Criteo's Display Advertising Challenge.

    Example: clickline data import criteo train.txt --out data/criteo
    """
    from clickline.data.importers import import_criteo

    call = partial(import_criteo, source, out, test_share=test_share, rows=rows, force=force)
    _import("Criteo", call, as_json=as_json)


@app.command()
def avazu(
    source: Annotated[str, _source("train.csv or train.gz.")],
    out: Out,
    test_share: TestShare = 0.2,
    rows: Rows = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import Avazu's Click-Through Rate Prediction.

    Example: clickline data import avazu train.gz --out data/avazu
    """
    from clickline.data.importers import import_avazu

    call = partial(import_avazu, source, out, test_share=test_share, rows=rows, force=force)
    _import("Avazu", call, as_json=as_json)


@app.command()
def movielens(
    source: Annotated[str, _source("ml-1m.zip, or the directory it was unpacked to.")],
    out: Out,
    test_share: TestShare = 0.2,
    two_labels: Annotated[
        bool, typer.Option("--two-labels", help="Write a job that trains mmoe on label and five_stars.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Import MovieLens 1M: four stars are a click, and each row has what its user liked before.

    Rows keep their rating and have a second label, five_stars. job.yaml trains din on the first label, unless
    --two-labels is given; rating.yaml predicts the rating itself (`train.loss: squared`).

    Example: clickline data import movielens ml-1m.zip --out data/movielens
    """
    from clickline.data.importers import import_movielens

    call = partial(import_movielens, source, out, test_share=test_share, two_labels=two_labels, force=force)
    _import("MovieLens", call, as_json=as_json)


def _import(dataset: str, call: Callable[..., Imported], *, as_json: bool) -> None:
    """Import a dataset with a progress bar, and report what was written."""
    with _progress(f"importing {dataset}", shown=not as_json) as progress:
        done = call(progress=progress)
    _report(done, as_json=as_json)


@contextmanager
def _progress(title: str, *, shown: bool) -> Iterator[Callable[[float | None], None]]:
    """A progress bar on stderr, if that is a terminal."""
    console = errors()
    if not (shown and console.is_terminal):
        yield lambda share: None
        return
    from rich.progress import Progress

    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda share: bar.update(task, total=None if share is None else 1.0, completed=share or 0.0)


def _report(done: Imported, *, as_json: bool) -> None:
    if as_json:
        print_json(done.to_dict())
        return
    if done.first_bad is not None:
        say_note(f"{done.bad:,} malformed lines were left out, the first: {done.first_bad}")
    say(f"{done.train_rows:,} rows in {done.train}, {done.test_rows:,} in {done.test}")
    say(f"next: clickline train {done.job}")
    for job in done.other_jobs:
        say(f"or:   clickline train {job}")
