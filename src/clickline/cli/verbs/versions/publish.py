"""`clickline publish`: from a trained model to a version that can be delivered and served."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from clickline.cli.shared.output import AsJson, errors, print_json, say
from clickline.cli.shared.storage_options import StoragePairs, options_of


def publish(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's directory or URL, its job file, or a checkpoint.", show_default=False
        ),
    ],
    to: Annotated[str, typer.Option(metavar="STORE", help="Where versions are kept: a directory or a URL.")],
    kind: Annotated[
        Literal["base", "delta", "auto"],
        typer.Option(help="All rows, or what changed since the last version. auto: a delta where one fits."),
    ] = "auto",
    dtype: Annotated[
        Literal["fp32", "fp16", "u8"], typer.Option(help="How rows are stored. u8: 8 bits, with min and max per row.")
    ] = "fp32",
    sample: Annotated[
        list[str] | None,
        typer.Option(help="Data to compare on; else the job's test, validation or training data. Repeatable."),
    ] = None,
    sample_rows: Annotated[int, typer.Option(min=1, max=100_000, help="Rows of it that go with the version.")] = 1024,
    max_auc_drop: Annotated[float, typer.Option(min=0, help="AUC that fp16 and u8 rows may cost.")] = 0.001,
    max_rmse_rise: Annotated[
        float, typer.Option(min=0, help="Share of the RMSE that they may add, with `train.loss: squared`.")
    ] = 0.001,
    storage: StoragePairs = None,
    as_json: AsJson = False,
) -> None:
    """Publish a run's best checkpoint by validation, else its newest, as a version: row files, ONNX network, manifest.

    The job may still be running. Before anything is visible, the network is run on rows read from the published files
    and must predict what the trainer predicts; else nothing is published, and the exit code is 8.

    Example: clickline publish runs/demo --to versions/demo --dtype fp16
    """
    from clickline.progress import LogOnly, watcher_for
    from clickline.publish.publisher import Settings
    from clickline.publish.publisher import publish as make
    from clickline.versions.maintenance import summary
    from clickline.versions.store import open_store

    store = open_store(to, options=options_of(storage))
    manifest = make(
        source,
        store,
        Settings(
            kind=kind,
            dtype=dtype,
            sample=tuple(sample or ()),
            sample_rows=sample_rows,
            max_auc_drop=max_auc_drop,
            max_rmse_rise=max_rmse_rise,
        ),
        watcher=LogOnly() if as_json else watcher_for(errors()),
    )
    if as_json:
        print_json({"store": to, **summary(manifest)})
        return
    size = sum(file.bytes for file in manifest.files.values())
    on = f" on {manifest.parent}" if manifest.parent else ""
    say(f"version {manifest.version} ({manifest.kind}{on}) of step {manifest.training['step']:,}: {size:,} bytes")
    for name, table in manifest.tables.items():
        deleted = f", {table.deleted:,} deleted" if table.deleted else ""
        say(f"  {name}: {table.rows:,} rows{deleted}; {table.total:,} in all, {table.dtype} × {table.dim}")
    figure = "rmse" if "rmse" in manifest.training else "auc"
    value, on = manifest.training[figure], manifest.training[f"{figure}_on"]
    files, name = manifest.training["measured_on"].get(on, []), figure.upper()
    measured = "not measured on this checkpoint" if value is None else f"{value:.5f} on {on} data: {_named(files)}"
    say(f"  {name} {measured}")
    say(f"  predictions differ from the trainer's by at most {manifest.parity['max_difference']:.2g}")


def _named(files: list[str], *, most: int = 3) -> str:
    """A list of files, shortened."""
    return ", ".join(files[:most]) + (f" and {len(files) - most} more" if len(files) > most else "")
