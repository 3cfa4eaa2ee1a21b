"""`clickline up`: data, training, a version, its delivery and predictions, on this machine; draws `clickline.up`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, Overrides, errors, print_json, say_note

DEMO_ROWS = 250_000


def up(
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="A job of your own; the demo if none.")] = None,
    overrides: Overrides = None,
    rows: Annotated[
        int | None, typer.Option(min=1000, help=f"Rows of demo data; {DEMO_ROWS:,} if not given.", show_default=False)
    ] = None,
    state: Annotated[Path, typer.Option(help="Directory for everything that this makes.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the predictor, if it is free; else any.")] = 8010,
    shards: Annotated[int, typer.Option(min=1, max=64, help="Of the cube: its rows are divided among so many.")] = 2,
    replicas: Annotated[int, typer.Option(min=1, max=16, help="Servers that hold the same shard of the cube.")] = 2,
    workers: Annotated[
        int, typer.Option(min=1, max=1024, help="Of the predictor: with one of them gone, the others answer.")
    ] = 2,
    stall_after: Annotated[
        float,
        typer.Option(
            min=0,
            max=3600,
            metavar="SECONDS",
            help="A process that stands still for so long is killed and started again; 0: never.",
        ),
    ] = 15.0,
    serve: Annotated[
        Path | None,
        typer.Option(
            "--serve",
            metavar="FILE",
            help="serve.yaml of the predictor: splits, shadows, caches, further models. The suite's own model, ctr, is "
            "added: its store and its cube.",
            show_default=False,
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw the run and its versions away; start anew.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End when all is shown, instead of at Ctrl+C.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train, publish, deliver and serve on this machine; show predictions and their AUC; stay until Ctrl+C.

    Without a job, demo data is made first. A job that does not say otherwise is trained with 2 parameter servers and 2
    trainers. Then a version is published, and delivered by a file server and transfer to a cube of so many
    shards × replicas, from which a predictor serves it. Called again, it goes on from what the state directory holds: a
    run that has finished is not trained again, an interrupted one is resumed, versions stay.

    Example: clickline up
    """
    from clickline.cli.pages.up_page import show
    from clickline.cli.pages.up_progress import UpProgress
    from clickline.launch.stack import local_stack
    from clickline.processes.child import stopped_by_signals
    from clickline.progress import watcher_for

    if job is not None and rows is not None:
        say_note("--rows has no effect: it is about demo data, and a job is given")
    with (
        stopped_by_signals(),
        local_stack.up(
            job,
            state=state,
            overrides=overrides or (),
            rows=rows or DEMO_ROWS,
            port=port,
            shards=shards,
            replicas=replicas,
            workers=workers,
            stall_after=stall_after,
            serve=serve,
            fresh=fresh,
            on_event=None if as_json else UpProgress(watcher_for(errors())),
        ) as stack,
    ):
        if as_json:
            print_json(asdict(stack.report))
        else:
            show(stack.report)
        if not once:
            try:
                stack.wait()
            except KeyboardInterrupt:  # being told to stop is how it ends
                say_note(f"stopping; `clickline up` goes on from {state}")
