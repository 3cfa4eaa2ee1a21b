"""The verbs of the command line, by name, and the application that is made of them.

A verb is a function with a docstring, which is its help and shows an example; a group of verbs is a Typer called `app`.
To add one, name it below. Only the verb that is called is imported, and it imports what it needs inside the function:
most of what a process starts with would else be verbs that it does not have.
"""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

import typer

from clickline.cli.shared.output import ReportingGroup

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

VERBS = {
    "up": "suite.up:up",
    "down": "suite.down:down",
    "deploy": "suite.deploy:deploy",
    "undeploy": "suite.undeploy:undeploy",
    "scale": "suite.scale:scale",
    "train": "training.train:train",
    "paddle-v1": "training.paddle_v1:paddle_v1",
    "pserver": "processes.pserver:pserver",
    "trainer": "processes.trainer:trainer",
    "coordinator": "processes.coordinator:coordinator",
    "train-window": "processes.train_window:train_window",
    "operator": "processes.operator:operator",
    "k8s": "processes.k8s:app",
    "image": "processes.image:image",
    "status": "suite.status:status",
    "logs": "suite.logs:logs",
    "jobs": "jobs.jobs:jobs",
    "stop": "jobs.stop:stop",
    "runs": "training.runs:runs",
    "compare": "training.runs:compare",
    "evaluate": "training.evaluate:evaluate",
    "fileserver": "processes.fileserver:fileserver",
    "checkpoint": "training.checkpoint:app",
    "publish": "versions.publish:publish",
    "versions": "versions.versions:app",
    "rollback": "versions.rollback:rollback",
    "export": "versions.export:export",
    "build": "versions.build:build",
    "transfer": "processes.transfer:transfer",
    "agent": "processes.agent:agent",
    "cube": "processes.cube:app",
    "serve": "processes.serve:serve",
    "predict": "clients.predict:predict",
    "bench": "clients.bench:app",
    "client-config": "clients.client_config:client_config",
    "data": "data.data:app",
    "example": "training.example:app",
    "rows": "versions.rows:app",
    "validate": "training.validate:validate",
    "explain": "training.explain:explain",
    "migrate": "training.migrate:migrate",
    "run": "training.run_config:run",
    "submit": "training.submit:submit",
    "capacity": "training.capacity:capacity",
    "doctor": "suite.doctor:doctor",
}
"""Where each is, below `clickline.cli.verbs`, in the order of --help."""
_SETTINGS = {"paddle-v1": {"ignore_unknown_options": True}}


def application(verb: str | None = None) -> typer.Typer:
    """The command line, with one verb alone if it is named."""
    app = typer.Typer(
        name="clickline",
        cls=ReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # its listing of local variables could show a secret
        rich_markup_mode="rich",
        epilog="Exit codes: " + ", ".join(f"{code} {meaning}" for code, meaning in EXIT_CODES.items()) + ".",
    )
    app.callback()(_clickline)
    for name in VERBS if verb is None else [verb]:
        module, _, attribute = VERBS[name].partition(":")
        found = getattr(import_module(f"clickline.cli.verbs.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name, context_settings=_SETTINGS.get(name))(found)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        from clickline import __version__

        typer.echo(f"clickline {__version__}")
        raise typer.Exit


def _clickline(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From click logs to live click-through-rate predictions.

    Example: clickline validate job.yaml
    """
