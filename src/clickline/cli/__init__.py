"""The command line: one file per verb, put together here.

A verb is a function with a docstring, which is its help and shows an example. To add one, import it and register it
below. A verb imports what it needs inside the function, so that --help need not wait for PyTorch.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated

import typer

from clickline.cli.shared.output import ReportingGroup
from clickline.cli.verbs.clients import bench
from clickline.cli.verbs.clients.client_config import client_config
from clickline.cli.verbs.clients.predict import predict
from clickline.cli.verbs.data import data, import_
from clickline.cli.verbs.processes import cube
from clickline.cli.verbs.processes.agent import agent
from clickline.cli.verbs.processes.coordinator import coordinator
from clickline.cli.verbs.processes.fileserver import fileserver
from clickline.cli.verbs.processes.pserver import pserver
from clickline.cli.verbs.processes.serve import serve
from clickline.cli.verbs.processes.trainer import trainer
from clickline.cli.verbs.processes.transfer import transfer
from clickline.cli.verbs.suite.doctor import doctor
from clickline.cli.verbs.suite.down import down
from clickline.cli.verbs.suite.logs import logs
from clickline.cli.verbs.suite.status import status
from clickline.cli.verbs.suite.up import up
from clickline.cli.verbs.training import checkpoint
from clickline.cli.verbs.training.capacity import capacity
from clickline.cli.verbs.training.evaluate import evaluate
from clickline.cli.verbs.training.explain import explain
from clickline.cli.verbs.training.runs import compare, runs
from clickline.cli.verbs.training.train import train
from clickline.cli.verbs.training.validate import validate
from clickline.cli.verbs.versions import rows, versions
from clickline.cli.verbs.versions.build import build
from clickline.cli.verbs.versions.export import export
from clickline.cli.verbs.versions.publish import publish
from clickline.cli.verbs.versions.rollback import rollback
from clickline.processes.child import live_no_longer_than_parent

EXIT_CODES = {
    0: "ok",
    1: "failed",
    2: "usage",
    3: "job",
    4: "data",
    5: "model",
    6: "checkpoint",
    7: "peer",
    8: "version",
    9: "replaced",
    130: "interrupted",
}

app = typer.Typer(
    name="clickline",
    cls=ReportingGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # its listing of local variables could show a secret
    rich_markup_mode="rich",
    epilog="Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
)


def _print_version(asked: bool) -> None:
    if asked:
        from clickline import __version__

        typer.echo(f"clickline {__version__}")
        raise typer.Exit


@app.callback()
def _clickline(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From click logs to live click-through-rate predictions.

    Example: clickline validate job.yaml
    """


app.command()(up)
app.command()(down)
app.command()(train)
app.command()(pserver)
app.command()(trainer)
app.command()(coordinator)
app.command()(status)
app.command()(logs)
app.command()(runs)
app.command()(compare)
app.command()(evaluate)
app.command()(fileserver)
app.add_typer(checkpoint.app, name="checkpoint")
app.command()(publish)
app.add_typer(versions.app, name="versions")
app.command()(rollback)
app.command()(export)
app.command()(build)
app.command()(transfer)
app.command()(agent)
app.add_typer(cube.app, name="cube")
app.command()(serve)
app.command()(predict)
app.add_typer(bench.app, name="bench")
app.command("client-config")(client_config)
data.app.add_typer(import_.app, name="import")
app.add_typer(data.app, name="data")
app.add_typer(rows.app, name="rows")
app.command()(validate)
app.command()(explain)
app.command()(capacity)
app.command()(doctor)


def _skip_collection_at_exit() -> None:
    """Leave PyTorch's many objects uncollected when the interpreter ends.

    Collecting them takes a second or more, in which a process that was told to stop is not gone; memory goes back to
    the system anyway. Not with Triton, which CUDA builds of PyTorch load to export a network: its bindings print a page
    about leaks for everything that is left.
    """
    if "triton" not in sys.modules:
        gc.freeze()


def main() -> None:
    """The entry point."""
    # Read when PyTorch loads. Its threads would else spin while they wait, which starves the threads that parse and, on
    # a busy machine, each other: docs/decisions/0004-threads-that-wait-sleep.md has the figures.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    atexit.register(_skip_collection_at_exit)
    live_no_longer_than_parent()
    app(prog_name="clickline")
