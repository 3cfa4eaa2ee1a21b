"""`clickline evaluate`: figures of a checkpoint on any data, by slice too, and its predictions as a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from clickline.cli.shared.output import AsJson, errors, print_json, results, say

if TYPE_CHECKING:
    from clickline.train.evaluation.calibration import CalibrationBin
    from clickline.train.evaluation.slices import Slice, ValueSlice
    from clickline.train.session import Evaluation

_SLICES_SHOWN = 20


def evaluate(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's directory or URL, its job file, or a checkpoint.", show_default=False
        ),
    ],
    data: Annotated[list[str], typer.Argument(help="Files, globs, directories or URLs.", show_default=False)],
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="COLUMN", help="Measure the rows of each value of a column, too.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write every row's prediction to this Parquet file.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint: AUC, logloss, calibration in bins, precision, recall, GAUC and what the job asks for.

    With `train.loss: squared` it is RMSE, MAE and calibration in bins.
    Of a run it is the best one by validation, or else the newest. Figures on the job's test or validation data are kept
    beside the checkpoint, and go with it when it is published.

    Example: clickline evaluate runs/demo 'logs/today-*.tsv.gz' --by C1
    """
    from clickline.progress import LogOnly, watcher_for
    from clickline.train.evaluation.predictions_file import write_predictions
    from clickline.train.evaluation.slices import slices_of
    from clickline.train.session import evaluation_of

    watcher = LogOnly() if as_json else watcher_for(errors())
    evaluation = evaluation_of(checkpoint=checkpoint, paths=data, watcher=watcher)
    group = evaluation.schema.group if out is not None else None
    named = [name for name in (by, group) if name is not None]
    texts = _values(evaluation, data, named) if named else {}
    slices = [] if by is None else slices_of(texts[by], evaluation.columns, loss=evaluation.schema.loss)
    if out is not None:
        groups = None if group is None else texts[group]
        schema = evaluation.schema
        write_predictions(out, evaluation.columns, labels=schema.labels, groups=groups, loss=schema.loss)
    if as_json:
        more: dict[str, Any] = {"calibration_bins": [asdict(each) for each in evaluation.bins]}
        more |= {"by": by, "slices": [asdict(each) for each in slices]} if by is not None else {}
        print_json({**evaluation.figures, **more, **({"predictions": str(out)} if out is not None else {})})
        return
    results().print(_figures_table(evaluation.figures))
    results().print(_bins_table(evaluation.bins))
    if by is not None:
        results().print(_slices_table(by, slices))
        if len(slices) > _SLICES_SHOWN:
            say(f"and {len(slices) - _SLICES_SHOWN:,} smaller slices, which --json has")
    if out is not None:
        say(f"{len(evaluation.columns['logits']):,} predictions in {out}")


def _values(found: Evaluation, paths: list[str], columns: Sequence[str]) -> dict[str, list[str]]:
    """The text of some columns in every row that was predicted; empty where a row has none."""
    from clickline.client.raw_rows import raw_rows
    from clickline.config.features import Slot

    read = {slot.column or slot.name for slot in found.schema.slots}
    # Columns that the model does not read become slots here, so that the parser keeps them.
    more = tuple(Slot(name=name) for name in columns if name not in read)
    schema = replace(found.schema, slots=(*found.schema.slots, *more))
    values: dict[str, list[str]] = {name: [] for name in columns}
    # A second pass over the data, in the order of the first: row i of the texts belongs to prediction i.
    for part in raw_rows(found.job.data, schema, paths, rows=4096):
        for name, texts in values.items():
            texts += [_text(instance.get(name)) for instance in part.instances]
    return values


def _text(value: Any) -> str:
    if value is None:
        return ""
    return "|".join(map(str, value)) if isinstance(value, list) else str(value)


def _figures_table(figures: dict[str, float]) -> Table:
    table = Table("figure", "value")
    for name, value in figures.items():
        table.add_row(name, f"{value:,}" if isinstance(value, int) else f"{value:.6f}")
    return table


def _bins_table(bins: Sequence[CalibrationBin]) -> Table:
    table = Table("predictions from", "to", "rows", "mean prediction", "mean label", title="calibration")
    for calibration_bin in bins:
        table.add_row(
            *(f"{x:.5f}" for x in (calibration_bin.low, calibration_bin.high)),
            f"{calibration_bin.rows:,}",
            f"{calibration_bin.predicted:.5f}",
            f"{calibration_bin.observed:.5f}",
        )
    return table


def _slices_table(column: str, slices: Sequence[Slice | ValueSlice]) -> Table:
    names = [one.name for one in fields(slices[0]) if one.name not in ("value", "rows")] if slices else []
    table = Table(column, "rows", *names)
    for data_slice in slices[:_SLICES_SHOWN]:
        figures = [getattr(data_slice, name) for name in names]
        table.add_row(
            escape(data_slice.value) or "(none)",
            f"{data_slice.rows:,}",
            *("" if value is None else f"{value:.5f}" for value in figures),
        )
    return table
