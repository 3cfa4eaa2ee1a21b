"""MovieLens 1M from the download to a table: rows are made, two models trained and tested, baselines put beside them.

One model predicts the stars (`train.loss: squared`), beside the mean of all ratings and a matrix factorization; the
other whether a movie is liked, four stars or more, as a click. Both train here, or on hosts over ssh, which are sent
the rows with the workspace.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clickline.config.loading.reader import Draft, read_draft
from clickline.data.importers import Imported, import_movielens
from clickline.data.importers.movielens import LIKED
from clickline.examples.matrix_factorization import errors, read_ratings, size_of, tuned
from clickline.launch.hosts.host_list import read_host_list
from clickline.launch.hosts.plans.job_plan import check_hosts
from clickline.launch.launchers import count_overrides, launch_job
from clickline.launch.local.training_run import train_job
from clickline.progress import LogOnly, Watcher
from clickline.train.evaluation.metrics import auc
from clickline.train.preflight import check_draft


@dataclass(frozen=True, slots=True)
class ModelScore:
    """A line of the table: figures on the test rows, None where a model does not have them."""

    model: str
    rmse: float | None = None
    mae: float | None = None
    auc: float | None = None
    """Of four stars or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleHosts:
    """Hosts to train on over ssh, as `clickline train --on ssh` takes them."""

    file: Path
    python: str = ""


def run_movielens(
    source: str,
    out: Path,
    *,
    hosts: ExampleHosts | None = None,
    overrides: Sequence[str] = (),
    force: bool = False,
    watcher: Watcher | None = None,
) -> list[ModelScore]:
    """Prepare, train and evaluate; the lines of the table, baselines first.

    `source` is ml-1m.zip, or what it was unpacked to; `out` gets the rows and jobs, and the runs unless they are on
    hosts. `overrides` change keys of both jobs.
    """
    watcher = watcher or LogOnly()
    imported = import_movielens(source, out, force=force)
    watcher.say(f"{imported.train_rows:,} rows to train on, {imported.test_rows:,} to test on, in {out}")
    scores = list(baselines(imported))
    (rating_job,) = imported.other_jobs
    for file, title in ((rating_job, "ratings"), (imported.job, "likes")):
        draft = _draft(file, out, hosts, overrides)
        job = check_draft(draft, look_for=("model",) if hosts else ("model", "data")).job
        watcher.say(f"training {job.model.name} on {title}")
        if hosts is None:
            figures: Mapping[str, float] = train_job(job, fresh=True, watcher=watcher, checked=True).test
        else:
            launched = launch_job(job, on="ssh", workspace=out, resume=False, fresh=True, watcher=watcher)
            figures = launched.test if launched is not None else {}
        name = f"{job.model.name}, trained on {title}"
        scores.append(ModelScore(name, *(figures.get(figure) for figure in ("rmse", "mae", "auc"))))
    return scores


def baselines(imported: Imported) -> Iterator[ModelScore]:
    """The mean of all ratings, and a matrix factorization that is tuned on the last tenth of the training rows."""
    train, test = read_ratings(imported.train), read_ratings(imported.test)
    liked = (test.stars >= LIKED).astype(np.float64)

    def score(name: str, predicted: NDArray[np.float64]) -> ModelScore:
        found = errors(predicted, test)
        return ModelScore(name, found["rmse"], found["mae"], auc(predicted, liked))

    yield score("mean of all ratings", np.full(len(test), train.stars.mean()))
    chosen, factors, ridge = tuned(train, size=size_of(train, test))
    yield score(f"matrix factorization, {factors} factors, ridge {ridge:g}", chosen.predict(test))


def _draft(file: Path, out: Path, hosts: ExampleHosts | None, overrides: Sequence[str]) -> Draft:
    if hosts is None:
        return read_draft(str(file), overrides=[f"output={out / 'runs'}", *overrides])
    # Processes run in a copy of `out`, so that is where relative paths begin.
    given = [
        "data.train=[train.csv]",
        "data.test=[test.csv]",
        *read_host_list(hosts.file).overrides(python=hosts.python),
    ]
    job = read_draft(str(file), overrides=[*given, *overrides]).loaded.job
    check_hosts(job)
    return read_draft(str(file), overrides=[*given, *overrides, *count_overrides(job, on="ssh")])
