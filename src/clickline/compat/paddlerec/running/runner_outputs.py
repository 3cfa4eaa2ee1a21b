"""What a runner leaves where PaddleRec had it: checkpoints, steps, inference models and result files."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from clickline.compat.paddlerec.running.run_plans import InferPlan, SavePlan
from clickline.compat.paddlerec.running.saved_epochs import (
    epoch_checkpoints,
    link,
    link_steps,
    saved_epochs,
    write_results,
    write_values,
)
from clickline.progress import Watcher
from clickline.publish.publisher import Settings as PublishSettings
from clickline.publish.publisher import publish
from clickline.train.run_files.run_result import Result
from clickline.train.session import evaluation_of
from clickline.versions.store import open_store

_SHOWN = ("auc", "logloss", "rmse", "mae")


def save_outputs(plan: SavePlan, result: Result, *, watcher: Watcher) -> list[Path]:
    """Save all that the plan wants of a run that has ended; gives back the paths."""
    checkpoints = epoch_checkpoints(result.directory)
    saved: list[Path] = []
    if plan.checkpoints is not None:
        due = {e: path for e, path in checkpoints.items() if plan.is_due(e, plan.checkpoint_interval)}
        for epoch, checkpoint in due.items():
            saved.append(link(plan.checkpoints / str(epoch), checkpoint))
            watcher.say(f'save epoch_id:{epoch} model into: "{saved[-1]}"')
    if plan.steps is not None:
        saved += link_steps(result.directory, plan.steps, epochs=plan.epochs)
    if plan.inference is not None:
        due = {e: path for e, path in checkpoints.items() if plan.is_due(e, plan.inference_interval)}
        saved += _published(plan.inference, due, watcher=watcher)
    if plan.results is not None:
        saved += write_results(result.directory, plan.results)
    return saved


def _published(place: Path, checkpoints: Mapping[int, Path], *, watcher: Watcher) -> Iterator[Path]:
    """Publish each epoch as a version of the store at `place`, and let <place>/<epoch> lead to it."""
    store = open_store(str(place))
    for epoch, checkpoint in checkpoints.items():
        made = publish(checkpoint, store, PublishSettings(), watcher=watcher)
        yield link(place / str(epoch), place / f"v{made.version:010d}")
        watcher.say(f'save epoch_id:{epoch} inference model into: "{place / str(epoch)}"')


def infer_epochs(plan: InferPlan, trained: Path | None, *, watcher: Watcher) -> dict[str, dict[str, float]]:
    """Figures by the name of each epoch's directory; `trained` is what is tested if the plan names nothing."""
    figures: dict[str, dict[str, float]] = {}
    for name, checkpoint in _to_test(plan, trained):
        began = time.monotonic()
        figures[name] = evaluation_of(checkpoint=checkpoint, paths=plan.data, watcher=watcher).figures
        seconds = time.monotonic() - began
        shown = {key: figures[name][key] for key in _SHOWN if key in figures[name]}
        if plan.title:
            metrics = ", ".join(f"{key.upper()}={value:.6f}" for key, value in shown.items())
            watcher.say(f"Infer {plan.title} of epoch {name} done, use time: {seconds:.2f}, global metrics: {metrics}")
        else:
            metrics = ", ".join(f"{key}: {value:.6f}" for key, value in shown.items())
            watcher.say(f"epoch: {name} done, {metrics}, epoch time: {seconds:.2f} s")
    if plan.results is not None:
        write_values(plan.results, figures)
    return figures


def _to_test(plan: InferPlan, trained: Path | None) -> Iterator[tuple[str, Path]]:
    if plan.load is not None:
        yield from saved_epochs(plan.load, first=plan.first, last=plan.last)
    elif trained is not None:
        yield trained.name, trained
