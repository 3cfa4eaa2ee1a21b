"""Where the rows come from and how they are read."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from clickline.config.secrets.secret_checks import check_address, check_concealed, check_plain, check_references
from clickline.config.section import Section

FORMATS = ("criteo", "slots", "elasticctr", "csv", "parquet")
FORMAT_PATTERN = rf"^({'|'.join(FORMATS)}|[\w./-]+:\w+)$"


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


Location = Annotated[str, Field(min_length=1), AfterValidator(check_plain), AfterValidator(check_address)]
Paths = Annotated[list[Location], BeforeValidator(_listed, json_schema_input_type=Location | list[Location])]
_Option = Annotated[str, AfterValidator(check_references)]


class Data(Section):
    format: Annotated[str, Field(pattern=FORMAT_PATTERN)] = "criteo"
    """criteo, slots (PaddleRec), elasticctr, csv, parquet, or your own reader: module:Class or path/file.py:Class."""
    train: Paths = []
    """Files, globs, directories or URLs to train on, in this order."""
    valid: Paths = []
    """The same, evaluated after each epoch; early stopping and the best checkpoint go by it."""
    test: Paths = []
    """The same, evaluated once at the end."""
    placement: Literal["shared", "node", "split"] = "shared"
    """Which trainers read which files. shared: any trainer any piece of any file. node: each node has its own files
    under these paths, train, valid and test, for its own trainers. split: every node can read all files of train; its
    trainers read its share, neighbours in the list."""
    reader: Annotated[dict[str, Any], AfterValidator(check_references), AfterValidator(check_concealed)] = {}
    """Keyword arguments for a reader of your own."""
    pipe_command: Annotated[str, AfterValidator(check_plain)] = ""
    """Text formats: a shell command that each file is sent through before it is parsed, such as `zcat | cut -f 1-40`.
    Its standard input is the file as it is stored, CLICKLINE_FILE its path. A file is read by one trainer then."""
    storage: Annotated[dict[str, _Option], AfterValidator(check_concealed)] = {}
    """Options for fsspec (endpoint, user, …). Secrets as ${env:NAME}: resolved at use, never printed."""
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","
    """CSV: what separates columns."""
    header: bool = True
    """CSV: whether the first line names the columns; if not, they are named 0, 1, 2, …"""
    shuffle_rows: Annotated[int, Field(ge=0, le=100_000_000)] = 50_000
    """Rows shuffled together, by seed, epoch and window; memory grows with it. 0 = keep the order of the log."""
    threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads that parse."""
    block_bytes: Annotated[int, Field(ge=4096, le=1 << 30)] = 1 << 20
    """Bytes of text that a thread parses at a time."""
    max_bad_rows: Annotated[float, Field(ge=0, le=1e15)] = 0.001
    """Malformed rows that are skipped before the run stops: a share of the rows if below 1, else a number."""
