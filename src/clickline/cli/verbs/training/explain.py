"""`clickline explain`: what a job says once defaults and overrides are in, and where each value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, JobFile, Overrides, print_json, results

if TYPE_CHECKING:
    from rich.text import Text


def explain(
    job: JobFile,
    overrides: Overrides = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the defaults of every slot, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show every key of a job, its value, and whether that is from a line of the file, from --set, or a default.

    Secrets are shown as the ${env:NAME} that the job holds.

    Example: clickline explain job.yaml --set model.name=wide_deep
    """
    from rich.table import Table

    from clickline.config.explanation import rows
    from clickline.config.loading.reader import read_job

    loaded = read_job(job, overrides=overrides or ())
    explained = rows(loaded.job, loaded.origins, everything=everything)
    if as_json:
        print_json([{"key": row.key, "value": row.value, "origin": row.origin} for row in explained])
        return
    table = Table("key", "value", "origin", box=None, pad_edge=False, header_style="bold")
    for row in explained:
        style = "dim" if row.origin == "default" else ""
        table.add_row(*(_cell(text, style) for text in (row.key, row.shown, row.origin)))
    results().print(table)


def _cell(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style, overflow="fold")
