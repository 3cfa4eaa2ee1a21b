"""Results and errors of all verbs: how they leave the program.

Results go to stdout, everything else to stderr. With --json, stdout holds one JSON value, and so does an error:
{"error": {"type", "message", "exit_code", …}}. A verb raises; nothing else in the command line prints errors.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from clickline.errors import ClicklineError

if TYPE_CHECKING:
    from rich.console import Console

_JSON_ASKED = "clickline.cli.json"
_PLAIN_WIDTH = 160
"""Columns of tables when stdout is a file or a pipe, which have no width of their own."""
INTERRUPTED = 130


def _remember(context: typer.Context, asked: bool) -> bool:
    context.meta[_JSON_ASKED] = asked
    return asked


JobFile = Annotated[str, typer.Argument(metavar="JOB", help="The job's YAML file.", show_default=False)]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one value, such as train.epochs=3. May be repeated."),
]
AsJson = Annotated[
    bool, typer.Option("--json", callback=_remember, is_eager=True, help="Print JSON for programs instead of text.")
]


class ReportingGroup(TyperGroup):
    """Runs a verb; turns errors that a user can act on into a message and an exit code, for all verbs alike."""

    def invoke(self, ctx: Any) -> Any:  # the context's class has moved between versions of typer
        try:
            return super().invoke(ctx)
        except ClicklineError as error:
            with _unwritable_is_no_other_error():
                report(error, as_json=ctx.meta.get(_JSON_ASKED, False))
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt as error:
            # A subclass has a message for the user; a plain interrupt has at most the name of a signal.
            text = str(error) if type(error) is not KeyboardInterrupt else ""
            with _unwritable_is_no_other_error():
                say_error(text or "interrupted")
            raise typer.Exit(INTERRUPTED) from None


@contextmanager
def _unwritable_is_no_other_error() -> Iterator[None]:
    """The exit code is still that of the error when its message cannot be written, to a log on a full disk say."""
    try:
        yield
    except OSError:
        # What was not written stays in the stream's buffer, and the interpreter would exit with 120 if it failed again.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # a stream that was replaced may have no descriptor
                os.dup2(nowhere, stream.fileno())


def report(error: ClicklineError, *, as_json: bool) -> None:
    """Show an error: as JSON on stdout, else in red on stderr."""
    if as_json:
        print_json({"error": error.as_dict()})
    else:
        say_error(str(error))


def results() -> Console:
    """Where results are printed. Made anew each time, since tests and pipes change what stdout is."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PLAIN_WIDTH
    return console


def errors() -> Console:
    """Where errors, warnings and progress are printed."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def say(text: str, *, style: str = "") -> None:
    """One line of result. Never wrapped, and brackets are brackets: slots[3] is not markup."""
    _print(results(), text, style)


def say_error(text: str) -> None:
    """A message about what went wrong."""
    _print(errors(), text, "red")


def say_note(text: str) -> None:
    """Something that the user should know and that is not an error."""
    _print(errors(), text, "yellow")


def _print(console: Console, text: str, style: str) -> None:
    from rich.text import Text

    console.print(Text(text, style=style), soft_wrap=True)


def print_json(value: Any) -> None:
    """A result for programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))
