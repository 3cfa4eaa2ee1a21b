"""`clickline rows`: rows in Cube's and PaddlePaddle's formats, to and from dictionaries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from clickline.cli.shared.output import AsJson, print_json, say

app = typer.Typer(
    help="Rows in Cube's and PaddlePaddle's formats: SequenceFiles, text, parameter files, donefiles.",
    no_args_is_help=True,
)

Layout = Literal["bytes", "fp32", "u8"]
Source = Annotated[Path, typer.Argument(metavar="SEQUENCE", help="A SequenceFile, or a directory of them.")]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="What to write.", show_default=False)]
RowLayout = Annotated[
    Literal["fp32", "u8"], typer.Option("--layout", help="fp32, or u8: 8 bits with the row's min and max.")
]
Values = Annotated[
    Literal["text", "fp32", "hex"],
    typer.Option("--values", help="text: as it is; fp32: numbers with spaces or commas between; hex: any bytes."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="Of the marks; the same gives the same bytes.", show_default=False)
]


@app.command("from-text")
def from_text(
    source: Annotated[Path, typer.Argument(metavar="TEXT", help="Lines of KEY:VALUE.")],
    out: Out,
    values: Values = "text",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Make a SequenceFile of text, one KEY:VALUE a line.

    Example: clickline rows from-text rows.txt --values fp32 --out base/feature
    """
    from clickline.compat.cube import row_text

    _wrote(row_text.from_text(source, out, values=values, seed=seed), out, as_json=as_json)


@app.command("to-text")
def to_text(source: Source, values: Values = "text") -> None:
    """Print the rows of a SequenceFile as KEY:VALUE lines.

    Example: clickline rows to-text base/feature --values fp32
    """
    from clickline.compat.cube import row_text

    for line in row_text.to_text(source, values=values):
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


@app.command()
def dump(
    source: Source,
    most: Annotated[int | None, typer.Option("--most", "-n", min=0, help="Rows to print; all if not given.")] = None,
) -> None:
    """Print the rows of a SequenceFile in hexadecimal.

    Example: clickline rows dump base/feature -n 10
    """
    from clickline.compat.cube import row_text

    for line in row_text.dump(source, most=most):
        print(line)


@app.command("from-v1")
def from_v1(
    source: Annotated[Path, typer.Argument(metavar="PARAMETER", help="A v1 parameter file: pass-NNNNN/NAME.")],
    out: Out,
    dim: Annotated[int, typer.Option("--dim", min=1, help="Numbers per row.", show_default=False)],
    keys: Annotated[
        Path | None,
        typer.Option("--keys", metavar="FILE", help="Keys of the rows, as `rows to-v1` writes them; else 0, 1, 2, …"),
    ] = None,
    layout: RowLayout = "fp32",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Make a SequenceFile of a v1 parameter: row i under key i, or under the i-th of --keys.

    Example: clickline rows from-v1 output/pass-00009/_emb.w0 --dim 16 --out base/feature
    """
    from clickline.compat.cube.conversion import rows_to_sequence
    from clickline.compat.paddle_v1.parameter_files import as_rows, read_keys, read_v1

    rows = as_rows(read_v1(source), dim, source=str(source))
    of_rows = None if keys is None else read_keys(keys)
    _wrote(rows_to_sequence(rows, out, keys=of_rows, layout=layout, seed=seed), out, as_json=as_json)


@app.command("to-v1")
def to_v1(
    source: Annotated[Path, typer.Argument(metavar="RUN", help="A run's directory or job file, or a checkpoint.")],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where pass-NNNNN go; the run's directory if not given.")
    ] = None,
    drop_later: Annotated[
        bool, typer.Option("--drop-later", help="Remove passes after the run's last one, which a run before has left.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write each epoch of a run that has a checkpoint as PaddlePaddle v1 does: pass-00000, pass-00001, …

    Example: clickline rows to-v1 runs/demo --out output
    """
    from clickline.compat.paddle_v1.pass_directories import write_passes
    from clickline.train.run_files.run_directory import find_run

    place = find_run(source) if out is None else out
    new = write_passes(source, place, drop_later=drop_later)
    if as_json:
        print_json({"path": str(place), "passes": [directory.name for directory in new]})
    else:
        say(f"{', '.join(directory.name for directory in new) or 'no new passes'} in {place}")


@app.command("from-tensor")
def from_tensor(
    source: Annotated[Path, typer.Argument(metavar="PARAMETER", help="A LoDTensor file of two dimensions.")],
    out: Out,
    layout: RowLayout = "fp32",
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Make a SequenceFile of a LoDTensor parameter: row i under key i.

    Example: clickline rows from-tensor SparseFeatFactors --layout u8 --out base/feature
    """
    from clickline.compat.cube.conversion import rows_to_sequence
    from clickline.compat.paddle_v1.parameter_files import read_lod_rows

    _wrote(rows_to_sequence(read_lod_rows(source), out, layout=layout, seed=seed), out, as_json=as_json)


@app.command("to-dict")
def to_dict(
    source: Source,
    out: Out,
    layout: Annotated[Layout, typer.Option("--layout", help="What the values are.")] = "bytes",
    as_json: AsJson = False,
) -> None:
    """Make a dictionary of SequenceFiles.

    Example: clickline rows to-dict base/ --layout fp32 --out table.dict
    """
    from clickline.compat.cube.conversion import to_dictionary

    written = to_dictionary(source, out, layout=layout)
    if as_json:
        print_json({"path": str(out), **written})
    else:
        say(f"{written['count']:,} rows in {out}")


@app.command("from-dict")
def from_dict(
    source: Annotated[Path, typer.Argument(metavar="DICTIONARY", help="A dictionary without deleted keys.")],
    out: Out,
    seed: Seed = None,
    as_json: AsJson = False,
) -> None:
    """Make a SequenceFile of a dictionary.

    Example: clickline rows from-dict table.dict --out base/feature
    """
    from clickline.compat.cube.conversion import from_dictionary

    _wrote(from_dictionary(source, out, seed=seed), out, as_json=as_json)


@app.command()
def announce(
    directory: Annotated[str, typer.Argument(metavar="INPUT", help="The directory of SequenceFiles that is complete.")],
    donefile: Annotated[str, typer.Option("--donefile", metavar="DIRECTORY", help="Holds base.txt and patch.txt.")],
    number: Annotated[
        int | None, typer.Option("--id", min=0, help="Seconds since 1970 if not given.", show_default=False)
    ] = None,
    patch_of: Annotated[
        int | None,
        typer.Option("--patch-of", min=0, help="Id of its base, for a patch.", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Append a line to a donefile of Cube's: base.txt, or patch.txt.

    Example: clickline rows announce /data/20261116/base --donefile /data/donefile
    """
    import time
    from dataclasses import asdict

    from clickline.compat.cube import cube_donefiles

    chosen = int(time.time()) if number is None else number
    kind: Literal["base", "patch"] = "base" if patch_of is None else "patch"
    product = cube_donefiles.append(donefile, kind, id=chosen, key=patch_of, input=directory)
    facts: dict[str, Any] = asdict(product)
    if as_json:
        print_json(facts)
    else:
        say(f"{kind} {chosen} announced in {donefile}")


def _wrote(rows: int, out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"path": str(out), "rows": rows})
    else:
        say(f"{rows:,} rows in {out}")
