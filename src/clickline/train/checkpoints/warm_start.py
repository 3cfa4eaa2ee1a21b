"""A warm start: a run that begins with another checkpoint's weights and keeps what it was given.

Rows of some tables restart at each epoch (docs/decisions/0005). In a run with a past they restart from the values that
the run was given, not from those of a new row: keys that the new data does not show stay as they were, and those that
it shows have learned from it once when the run ends. Steps are counted on, so that ticks of the tables and versions of
two days differ. The checkpoint is linked into the run's directory, as `start`: the run that made it may prune it while
this one trains. docs/decisions/0013 has the reasons.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from clickline import _native
from clickline.config import Job
from clickline.config.tables import Tables
from clickline.data.embeddings import Embedding
from clickline.data.input_files import paths_here
from clickline.data.normalization import fit
from clickline.data.schema import Schema
from clickline.errors import CheckpointError, DataError
from clickline.files.atomic import sync_directory
from clickline.train.checkpoints import checkpoint_files
from clickline.train.checkpoints.checkpoint_directories import MANIFEST
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.run_files.run_directory import find_checkpoint
from clickline.train.sparse_tables import BUCKETS, settings_of

START = "start"


def keep_start(directory: Path, given: Checkpoint) -> Checkpoint:
    """The given checkpoint below the run's directory: by hard links, or as a copy where it is on another disk.

    Checkpoints are never changed in place, so what is linked is what was there. Call it under the run's lock.
    """
    place, staging = directory / START, directory / f".{START}-writing"
    try:
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        for name in (*given.manifest["files"], MANIFEST):
            _link_or_copy(given.path / name, staging / name)
        sync_directory(staging)
        # A crash between these two leaves no `start`. Only a run without checkpoints comes here, so it begins again.
        shutil.rmtree(place, ignore_errors=True)
        staging.rename(place)
        sync_directory(directory)
    except OSError as error:
        raise CheckpointError(f"{place}: the weights to start with cannot be kept there: {error}") from error
    return checkpoint_files.read(place)


def given_start(directory: Path, warm_start: Path | None) -> Checkpoint | None:
    """For a run that starts: the weights it is to begin with, kept; those of a run before are discarded."""
    if warm_start is not None:
        return keep_start(directory, find_checkpoint(warm_start))
    shutil.rmtree(directory / START, ignore_errors=True)
    return None


def kept_start(directory: Path, recorded: str | None) -> str | None:
    """Where the weights are that a run was given, by its checkpoint; the run may have been moved since."""
    if recorded is not None and not Path(recorded).is_dir() and (directory / START / MANIFEST).is_file():
        return str(directory / START)
    return recorded


def describe_start(source: Path | None, given: Checkpoint, tables: Tables) -> str:
    """The line that is shown at the start of such a run."""
    restarting = [name for name in ("embedding", "linear") if getattr(tables, name).restart_epochs]
    rows = "rows that the data does not touch stay as they are"
    if restarting:
        rows += f"; each epoch after the first begins again with the given {' and '.join(restarting)} rows"
    return f"starting with the weights of {source}, step {given.step:,}: {rows}"


def schema_for(job: Job, given: Checkpoint | None) -> Schema:
    """What a row of the job's data means. Dense features are normalised by the given statistics, if they were fitted.

    The given network learned with those: other numbers would mean other inputs to it, and a delta would not fit.
    """
    schema = Schema.of(job.data, job.features, loss=job.train.loss)
    # Statistics are reused for all features or for none: a mixture would be fitted on two different data sets.
    if given is not None and schema.needs_fit:
        known = Schema.from_dict(given.manifest["schema"])
        # The given network adds to the means that it has learned with.
        if schema.lacks_means and known.labels == schema.labels:
            schema = replace(schema, label_means=known.label_means)
        before = {dense.name: dense for dense in known.dense}
        if all(dense.name in before and before[dense.name].normalise == dense.normalise for dense in schema.dense):
            schema = schema.fitted({name: (one.center or 0.0, one.spread or 1.0) for name, one in before.items()})
    paths = job.data.train
    if schema.needs_fit and job.data.placement == "node":
        paths = paths_here(job.data, paths)
        if not paths:
            raise DataError(
                "dense features are normalised by statistics of the coordinator's node, which has no files of "
                "data.train: give their center and spread in the job, or have trainers and files there"
            )
    return fit(job.data, schema, paths, rows=job.features.fit_rows)


def restart_rows(
    tables: Mapping[str, _native.Table],
    *,
    embeddings: Mapping[str, Embedding],
    settings: Tables,
    start: str | None,
    buckets: tuple[int, int] = (0, BUCKETS),
    threads: int = 1,
) -> None:
    """Begin another epoch: rows of tables that the job restarts learn anew, from what the run was given if anything."""
    restarted = {name: t for name, t in tables.items() if settings_of(embeddings[name], settings).restart_epochs}
    # Rows that the given checkpoint does not have keep the initial value that `reset` gives them.
    for table in restarted.values():
        table.reset(threads=threads)
    if start is None or not restarted:
        return
    try:
        given = checkpoint_files.read(Path(start))
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; this run began with those weights and restarts its rows from them in each epoch: put them back, "
            "or continue without restarts: --set tables.embedding.restart_epochs=false"
        ) from error
    checkpoint_files.restore_tables(given, restarted, buckets=buckets)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileNotFoundError:
        # The run that wrote it has pruned it meanwhile: a copy would fail as well.
        raise
    except OSError:
        shutil.copyfile(source, target)
