"""`clickline versions`: look at what is published, check it, compare it, clear away what is old."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from clickline.cli.pages.nested_values import nested_table
from clickline.cli.shared.output import AsJson, print_json, results, say
from clickline.cli.shared.storage_options import StoragePairs, options_of

app = typer.Typer(help="Look at published versions, check them, compare them.", no_args_is_help=True)
Place = Annotated[str, typer.Argument(metavar="STORE", help="A directory or a URL.", show_default=False)]
Number = Annotated[int, typer.Argument(min=1, help="A version's number.", show_default=False)]
MaybeNumber = Annotated[
    int | None, typer.Argument(min=1, help="A version's number; else the one to serve.", show_default=False)
]


@app.command("list")
def list_(store: Place, storage: StoragePairs = None, as_json: AsJson = False) -> None:
    """Every version: kind, parent, rows, bytes, run, AUC or RMSE and its data, watermark, and which is to be served.

    Example: clickline versions list versions/demo
    """
    from clickline.versions.maintenance import list_versions
    from clickline.versions.store import open_store

    published = list_versions(open_store(store, options=options_of(storage), must_exist=True))
    if as_json:
        print_json(published)
        return
    table = Table(
        "version", "kind", "parent", "rows", "deleted", "bytes", "dtype", "run", "step", "AUC", "watermark", "created"
    )
    for version in published:
        training = version["training"]
        table.add_row(
            f"{version['version']}{' *' if version['serving'] else ''}",
            version["kind"],
            str(version["parent"] or ""),
            f"{sum(t['rows'] for t in version['tables'].values()):,}",
            f"{sum(t['deleted'] for t in version['tables'].values()):,}",
            f"{version['bytes']:,}",
            version["dtype"],
            str(training["run"] or ""),
            f"{training['step']:,}" if isinstance(training["step"], int) else "",
            _quality(training),
            _time(version["watermark"]),
            _time(version["created"]),
        )
    results().print(table)
    say("* to be served")


@app.command()
def show(store: Place, version: MaybeNumber = None, storage: StoragePairs = None, as_json: AsJson = False) -> None:
    """A version's manifest: tables, inputs and outputs of the network, files, training, parity.

    Example: clickline versions show versions/demo 12
    """
    from clickline.versions.maintenance import show as read
    from clickline.versions.store import open_store

    manifest = read(open_store(store, options=options_of(storage), must_exist=True), version)
    values = manifest.model_dump(by_alias=True, mode="json")
    if as_json:
        print_json(values)
        return
    results().print(nested_table({key: value for key, value in values.items() if key not in ("job", "schema")}))


@app.command()
def verify(
    store: Place,
    version: MaybeNumber = None,
    sample: Annotated[bool, typer.Option("--sample", help="Predict the golden sample again, too.")] = False,
    storage: StoragePairs = None,
    as_json: AsJson = False,
) -> None:
    """Check a version and what it stands on: every file's size and SHA-256, every row file's inside; exit 8 if not.

    Example: clickline versions verify versions/demo 12 --sample
    """
    from clickline.versions.maintenance import show as read
    from clickline.versions.maintenance import verify as check
    from clickline.versions.store import open_store

    opened = open_store(store, options=options_of(storage), must_exist=True)
    number = read(opened, version).version
    files = check(opened, number)
    worst = None
    if sample:
        from clickline.publish.parity import check_again

        worst = check_again(opened, number)
    if as_json:
        print_json({"store": store, "version": number, "ok": True, "files": files, "max_difference": worst})
        return
    say(f"version {number}: {files} files, all as the manifest says")
    if worst is not None:
        say(f"predictions differ from the trainer's by at most {worst:.2g}")


@app.command()
def diff(store: Place, one: Number, other: Number, storage: StoragePairs = None, as_json: AsJson = False) -> None:
    """How two versions differ: rows added, changed, removed; parameters of the network. Exit 1 if they do.

    Example: clickline versions diff versions/demo 11 12
    """
    from clickline.versions.maintenance import difference
    from clickline.versions.store import open_store

    differences = difference(open_store(store, options=options_of(storage), must_exist=True), one, other)
    if as_json:
        print_json(differences)
    else:
        table = Table("table", "rows added", "rows changed", "rows removed")
        for name, counts in differences["tables"].items():
            if "rows added" in counts:
                table.add_row(name, *(f"{counts[key]:,}" for key in ("rows added", "rows changed", "rows removed")))
            else:
                table.add_row(name, ", ".join(counts), "", "")
        results().print(table)
        dense = differences["network_max_difference"]
        say("networks of different shape" if dense is None else f"network: parameters differ by at most {dense:.3g}")
    if not differences["same"]:
        raise typer.Exit(1)


@app.command()
def keep(
    store: Place,
    count: Annotated[int, typer.Argument(min=1, help="How many of the newest to keep.", show_default=False)],
    storage: StoragePairs = None,
    as_json: AsJson = False,
) -> None:
    """Remove old versions; never the one to serve, nor what a kept one stands on.

    Example: clickline versions keep versions/demo 5
    """
    from clickline.versions.maintenance import keep as remove_others
    from clickline.versions.store import open_store

    removed = remove_others(open_store(store, options=options_of(storage), must_exist=True), count)
    if as_json:
        print_json({"store": store, "removed": removed})
    else:
        say(f"removed {', '.join(map(str, removed))}" if removed else "nothing to remove")


def _quality(training: Mapping[str, Any]) -> str:
    """The AUC and its data; of a version whose loss is squared, its RMSE."""
    if isinstance(training["rmse"], float):
        return f"RMSE {training['rmse']:.5f} {training['rmse_on'] or ''}".strip()
    auc = training["auc"]
    return f"{auc:.5f} {training['auc_on'] or ''}".strip() if isinstance(auc, float) else ""


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # event times of a log need not be seconds since 1970
        return f"{seconds:,}"
