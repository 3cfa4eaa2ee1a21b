"""What a stack came to: the run, the version, where everything is, and its predictions, measured."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clickline.client.raw_rows import Instance, first_rows, raw_rows
from clickline.config import Job
from clickline.config.training import Loss
from clickline.data.schema import Schema
from clickline.launch.stack.served_evaluation import ServedEvaluation, ServedMetrics
from clickline.launch.stack.stack_events import Emit, NoTestData, Stage, reported
from clickline.launch.stack.stack_stages import FinishedRun
from clickline.launch.suite import Suite
from clickline.launch.suite_record import ComponentRecord
from clickline.versions.manifest import Manifest

_SAMPLES = 5


@dataclass(frozen=True)
class SamplePrediction:
    """A row of the data, and what was predicted for it."""

    features: Instance
    label: float
    probability: float
    version: int


@dataclass(frozen=True)
class StackReport:
    """What a stack came to: the run, the version, where everything is, how good its predictions are."""

    state: str
    best_auc: float | None
    """The best that any model could reach, if the data is the demo's."""
    training: Literal["trained", "resumed", "kept"]
    run: str
    checkpoint: str
    rows: int
    seconds: float
    test: dict[str, float]
    store: str
    version: int
    kind: str
    trained_auc: float | None
    """On test data, measured by the trainer of the model that is served."""
    first_prediction_seconds: float
    samples: list[SamplePrediction]
    http: str
    model: str
    files: str
    transfer: str
    token_file: str
    components: list[ComponentRecord]
    served: ServedMetrics | None
    """On test data, through the predictor; None if the job has none."""
    loss: Loss = "log"
    trained_rmse: float | None = None
    """With a squared loss, in place of the AUC."""


def measure_stack(
    suite: Suite,
    job: Job,
    run: FinishedRun,
    manifest: Manifest,
    *,
    state: str | Path,
    best: float | None,
    began: float,
    emit: Emit,
) -> StackReport:
    """Predict some rows, then all test rows: what comes back is what `up` is about."""
    data, schema = job.data, Schema.from_dict(manifest.data_schema)
    with ServedEvaluation(suite, label=schema.labels[0], loss=schema.loss) as evaluation:
        sample = first_rows(data, schema, data.test or data.valid or data.train, _SAMPLES)
        predicted = evaluation.predict(sample.instances)
        first_prediction = round(time.monotonic() - began, 2)
        served = None
        if data.test:
            total = run.test.get("rows")
            with reported(Stage.MEASURING, emit):
                parts = raw_rows(data, schema, data.test)
                served = evaluation.measure(parts, total=int(total) if total else None, on_progress=emit)
        else:
            emit(NoTestData())
    record = suite.record()
    return StackReport(
        state=str(state),
        best_auc=best,
        training=run.how,
        run=run.url or str(run.directory),
        checkpoint=str(run.checkpoint),
        rows=run.rows,
        seconds=run.seconds,
        test=run.test,
        store=str(Path(state) / "versions"),
        version=manifest.version,
        kind=manifest.kind,
        trained_auc=_trained(manifest, "auc"),
        first_prediction_seconds=first_prediction,
        samples=[
            SamplePrediction(features, float(label), probability, predicted.version)
            for features, label, probability in zip(
                sample.instances, sample.labels[:, 0], predicted.probabilities, strict=True
            )
        ],
        http=suite.http,
        model=suite.model,
        files=suite.files,
        transfer=suite.cube.url,
        token_file=record["token_file"],
        components=record["components"],
        served=served,
        loss=schema.loss,
        trained_rmse=_trained(manifest, "rmse"),
    )


def _trained(manifest: Manifest, figure: str) -> float | None:
    """A figure of the trainer's on test data."""
    value = manifest.training.get("figures", {}).get("test", {}).get(figure)
    return None if value is None else float(value)
