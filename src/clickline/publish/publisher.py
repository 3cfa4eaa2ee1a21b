"""From a checkpoint to a version that readers can see: rows, network, sample, parity, manifest, rename, donefile line.

Everything is written to a staging directory and nothing is visible before the last step, so a publisher may be killed,
interrupted or refused at any point and the store is as it was; the next publisher removes what it left. Only one
publishes at a time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clickline.errors import DataError, VersionError
from clickline.files.failpoints import reach
from clickline.progress import LogOnly, Watcher
from clickline.publish.checkpoint_source import CheckpointSource, open_checkpoint_source
from clickline.publish.onnx_export import export, inputs_of, outputs_of
from clickline.publish.parity import Parity, Published, compare, judge, measure, probabilities
from clickline.publish.row_files import LONGEST, WrittenRows, table_file, tables_of, write_rows
from clickline.publish.sample_rows import draw, paths_of, unread_columns
from clickline.publish.version_staging import file_facts, reveal, staging_directory, sync, write_file
from clickline.train.run_files.run_directory import find_checkpoint
from clickline.versions import donefile
from clickline.versions.chain import Chain, LayeredRows, NeedsBaseError, check_fits, open_dictionary, opened
from clickline.versions.donefile import Donefile
from clickline.versions.golden_sample import ROWS, Sample
from clickline.versions.maintenance import clean
from clickline.versions.manifest import FORMAT, MANIFEST, NETWORK, SAMPLE, Dtype, Manifest
from clickline.versions.store import Store

Kind = Literal["base", "delta", "auto"]


@dataclass(frozen=True)
class Settings:
    """How to publish."""

    kind: Kind = "auto"
    """auto: a delta if it fits its parent and is worth it, else a base."""
    dtype: Dtype = "fp32"
    sample: tuple[str, ...] = ()
    """Data of which the golden sample is taken; else the job's test, validation or training data."""
    sample_rows: int = ROWS
    max_auc_drop: float = 0.001
    """The largest drop of the AUC that rows shorter than 32 bits may cause."""
    max_rmse_rise: float = 0.001
    """With a squared loss: the largest rise of the RMSE that they may cause, as a share of it."""


def publish(source: str | Path, store: Store, settings: Settings, *, watcher: Watcher | None = None) -> Manifest:
    """Publish the best checkpoint of a run (see `find_checkpoint`), or the one named, as the store's next version."""
    watcher = watcher or LogOnly()
    find_checkpoint(source)  # before anything is made in the store
    watcher.begin("opening the checkpoint")
    try:
        with store.locked("publishing", say=watcher.say), ExitStack() as stack:
            done = donefile.read(store)
            # The lock is ours, so a directory that no line names was left by a dead publisher.
            clean(store, done)
            trained = open_checkpoint_source(source)
            _say_which(trained, source, watcher)
            # `stack` keeps the parent's files on this machine until the delta was made from them and compared.
            parent = _parent(trained, store, done, settings, stack=stack, watcher=watcher)
            with staging_directory(store, done.last + 1) as staging:
                manifest = _write(trained, staging, done.last + 1, settings, parent=parent, watcher=watcher)
                reveal(store, staging, manifest)
    finally:
        watcher.end()
    reach("publish.done")
    return manifest


def _say_which(trained: CheckpointSource, source: str | Path, watcher: Watcher) -> None:
    """Say so if a run was named and its best checkpoint, which is published, is not its newest."""
    path, step = trained.checkpoint.path, trained.checkpoint.step
    if path != Path(source) and trained.checkpoint.manifest["standing"].get("best_step") == step:
        newest = max(path.parent.glob("step-*")).name
        if newest != path.name:
            watcher.say(f"publishing {path.name}, the best by validation; name {path.parent / newest} for the newest")


def _parent(
    trained: CheckpointSource, store: Store, done: Donefile, settings: Settings, *, stack: ExitStack, watcher: Watcher
) -> Chain | None:
    """The chain that a delta would lie on; None for a base."""
    if settings.kind == "base":
        return None
    try:
        if done.last == 0:
            raise NeedsBaseError(f"{store.url}: no version yet that a delta could lie on; publish a base (--kind base)")
        if settings.kind == "auto" and len(done.chain(done.last, where=store.url)) > LONGEST:
            raise VersionError(f"{LONGEST} deltas on one base are enough")
        # The newest version and not the one in service, also after a rollback: a delta's parent is the number before
        # its own.
        chain = stack.enter_context(opened(store, done.last, done=done))
        check_fits(chain.manifest, tables_of(trained.learner, settings.dtype), where="this model")
        if chain.manifest.data_schema != trained.schema.to_dict():
            raise NeedsBaseError(f"version {done.last} has other features (its schema differs); publish a base")
    except VersionError as error:
        if settings.kind == "delta":
            if isinstance(error, NeedsBaseError):
                raise
            raise VersionError(f"{error}; publish a base") from error
        if done.last:
            watcher.say(f"a base, since: {error}")
        return None
    return chain


def _write(
    trained: CheckpointSource,
    staging: Path,
    version: int,
    settings: Settings,
    *,
    parent: Chain | None,
    watcher: Watcher,
) -> Manifest:
    """All files of a version, checked; nothing of it is visible yet."""
    learner = trained.learner
    watcher.begin("writing rows")
    rows = write_rows(
        learner,
        staging,
        dtype=settings.dtype,
        parent=parent,
        or_base=settings.kind == "auto",
        progress=lambda share, what: watcher.advance(share=share, facts={"table": what}),
    )
    if rows.kind == "base":
        parent_version, base = None, version
    else:
        assert parent is not None  # noqa: S101  (a delta has one)
        parent_version, base = parent.manifest.version, parent.manifest.base
    reach("publish.rows-written")
    watcher.begin("exporting the network")
    network = export(learner)
    write_file(staging / NETWORK, network)
    reach("publish.network-written")
    watcher.begin("comparing with the trainer")
    parity = _check_parity(trained, staging, rows, network, settings, parent=parent, watcher=watcher)
    manifest = Manifest(
        format=FORMAT,
        version=version,
        kind="base" if parent_version is None else "delta",
        parent=parent_version,
        base=base,
        created=round(time.time(), 3),
        tables=rows.tables,
        network=NETWORK,
        inputs=inputs_of(learner.model, trained.schema),
        outputs=outputs_of(trained.schema),
        sample=SAMPLE,
        # Listed before the manifest is written, which must not list itself.
        files={file.name: file_facts(file) for file in sorted(staging.iterdir())},
        watermark=trained.watermark,
        training=trained.facts(),
        parity=parity.to_dict(),
        job=trained.checkpoint.manifest["job"],
        data_schema=trained.schema.to_dict(),
        unread=_unread(trained, settings, parent=parent),
    )
    write_file(staging / MANIFEST, manifest.encoded())
    return manifest


def _check_parity(
    trained: CheckpointSource,
    staging: Path,
    rows: WrittenRows,
    network: bytes,
    settings: Settings,
    *,
    parent: Chain | None,
    watcher: Watcher,
) -> Parity:
    """Predict the golden sample from what was just written, and write the sample."""
    learner = trained.learner
    # A delta is checked together with what it lies on, as readers will see it.
    under = parent.layers if parent is not None and rows.kind == "delta" else {}
    layers = {
        name: [*under.get(name, ()), open_dictionary(staging / table_file(name), table, shown=table_file(name))]
        for name, table in rows.tables.items()
    }
    published = Published(
        inputs=inputs_of(learner.model, trained.schema),
        schema=trained.schema,
        rows={name: LayeredRows(dictionaries) for name, dictionaries in layers.items()},
        network=network,
        threads=learner.sparse.threads,
    )
    paths = list(settings.sample) or paths_of(trained.job)
    try:
        batch = draw(trained.job, trained.schema, paths=paths, rows=settings.sample_rows)
    except DataError as error:
        if parent is None or settings.sample:
            raise VersionError(f"no rows to compare with the trainer: {error} --sample names other data") from error
        watcher.say(f"the sample of version {parent.manifest.version} is used again, since: {error}")
        batch, paths = parent.sample().batch, []
    # Also for rows of the parent's sample: the probabilities are those of the model that is published now.
    sample = Sample(batch, probabilities(learner, batch))
    parity = compare(sample, published, loss=learner.schema.loss)
    if settings.dtype != "fp32":
        if paths:
            parity = measure(
                parity,
                learner,
                published,
                job=trained.job,
                paths=paths,
                progress=lambda share, facts: watcher.advance(share=share, facts=facts),
            )
        if parity.auc is not None and parity.published_auc is not None:
            watcher.say(
                f"AUC {parity.auc:.6f} before, {parity.published_auc:.6f} with {settings.dtype} rows "
                f"(drop {parity.drop:+.6f}, {parity.auc_rows:,} rows)"
            )
        elif parity.rmse is not None and parity.published_rmse is not None:
            watcher.say(
                f"RMSE {parity.rmse:.6f} before, {parity.published_rmse:.6f} with {settings.dtype} rows "
                f"({parity.rise:+.4%}, {parity.auc_rows:,} rows)"
            )
        else:
            watcher.say("the rows to compare on are all of one class, so what the AUC loses is not known")
    judge(parity, dtype=settings.dtype, max_auc_drop=settings.max_auc_drop, max_rmse_rise=settings.max_rmse_rise)
    sample.write(staging / SAMPLE)
    sync(staging / SAMPLE)
    return parity


def _unread(trained: CheckpointSource, settings: Settings, *, parent: Chain | None) -> list[str]:
    """Columns that no feature is read from, by the data of the sample; the parent's if that cannot be read."""
    try:
        paths = list(settings.sample) or paths_of(trained.job)
        return unread_columns(trained.job, trained.schema, paths=paths)
    except DataError:
        return [] if parent is None else list(parent.manifest.unread)
