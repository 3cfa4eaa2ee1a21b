"""`clickline explain`: what a job says once defaults and overrides are in, and where each value came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from clickline.cli.shared.output import AsJson, JobFile, Overrides, print_json, results, say, say_note
from clickline.cli.shared.paddlerec_options import BackendFile, PaddleOverrides

if TYPE_CHECKING:
    from rich.text import Text


def explain(
    job: JobFile,
    overrides: Overrides = None,
    everything: Annotated[bool, typer.Option("--all", help="Show the defaults of every slot, too.")] = False,
    backend: BackendFile = None,
    paddle_overrides: PaddleOverrides = None,
    as_json: AsJson = False,
) -> None:
    """Show every key of a job, its value, and whether that is from a line of the file, from --set, or a default.

    Secrets are shown as the ${env:NAME} that the job holds. Of a config.yaml of PaddleRec, the job that it stands for
    is shown, with the lines of config.yaml.

    Example: clickline explain job.yaml --set model.name=wide_deep
    """
    from rich.table import Table

    from clickline.compat.paddlerec.job_files import read_job_file
    from clickline.config.loading.explanation import rows
    from clickline.config.loading.reader import refusal
    from clickline.config.run_location import described, location_of

    read = read_job_file(job, overrides=overrides or (), backend=backend, paddle_overrides=paddle_overrides or ())
    if read.draft.problems:
        raise refusal(read.draft.source, read.draft.problems)
    loaded = read.draft.loaded
    explained = rows(loaded.job, loaded.origins, everything=everything)
    if as_json:
        print_json([{"key": row.key, "value": row.value, "origin": row.origin} for row in explained])
        return
    table = Table("key", "value", "origin", box=None, pad_edge=False, header_style="bold")
    for row in explained:
        style = "dim" if row.origin == "default" else ""
        table.add_row(*(_cell(text, style) for text in (row.key, row.shown, row.origin)))
    results().print(table)
    say(described(location_of(loaded.job)))
    for notice in read.notices:
        say_note(str(notice))


def _cell(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style, overflow="fold")
