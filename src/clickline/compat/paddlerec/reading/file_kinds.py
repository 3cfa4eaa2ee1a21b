"""Which kind of file a YAML file is, by its keys: PaddleRec's or a job of our own.

Every start of a training looks at its job with this, so it loads nothing that reads PaddleRec's files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from clickline.config.job import Job
from clickline.config.loading.reader import read_tree
from clickline.errors import JobError

FIRST_KEYS = ("workspace", "mode", "phase", "dataset")
ANY_KEYS = ("runner", "hyper_parameters", *FIRST_KEYS)
FLAT_NAMES = ("dygraph", "static", "static_benchmark")
"""What the section `runner` was called in files between the generations."""


def is_paddlerec(value: object) -> bool:
    """Whether the values of a YAML file are PaddleRec's: more of its keys than of a job's."""
    if not isinstance(value, Mapping):
        return False
    own = sum(key in value for key in Job.model_fields)
    return sum(key in value for key in (*ANY_KEYS, *FLAT_NAMES)) > own


def is_oldest(value: object) -> bool:
    """Whether the values are of a config.yaml from before PaddleRec 1.8, which has everything below `train`."""
    train = value.get("train") if isinstance(value, Mapping) else None
    return isinstance(train, Mapping) and any(key in train for key in ("workspace", "reader", "trainer"))


def is_backend(value: object) -> bool:
    """Whether the values are of a backend.yaml."""
    return isinstance(value, Mapping) and "submit" in value and ("backend" in value or "cluster_type" in value)


def refuse_config(path: str) -> None:
    """Raise JobError if a file that should be a job is PaddleRec's."""
    file = Path(path)
    if file.is_file() and is_paddlerec(values_of(file)):
        raise JobError(
            f"{path}: a config.yaml of PaddleRec; `clickline run -m` runs it, `clickline migrate` makes a job of it"
        )


def values_of(file: Path) -> object:
    """The values of a YAML file; none if it cannot be read, of which whoever reads it next has the message."""
    try:
        return read_tree(file, repeated_keys="last").value
    except JobError:
        return None
