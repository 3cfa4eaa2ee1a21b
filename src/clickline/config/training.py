"""How long and how fast to learn, what to watch, what to keep."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from clickline.config.section import Section

FROZEN_PATTERN = r"^[\w.*?\[\]-]+$"
LineFormat = Literal["clickline", "paddlerec"]
Loss = Literal["log", "squared"]
"""What labels are, what the model's output is, and how their distance is measured."""


def predicted_name(loss: Loss) -> str:
    """What a prediction is called: where labels are numbers it is one, too."""
    return "value" if loss == "squared" else "probability"


class DenseOptimizer(Section):
    name: Literal["sgd", "adagrad", "adam", "adamw"] = "adam"
    """The rule for the dense parameters."""
    learning_rate: Annotated[float, Field(gt=0, le=100)] = 0.001
    """Step size."""
    weight_decay: Annotated[float, Field(ge=0, le=1e30)] = 0.0
    """L2 (adamw: decoupled)."""
    clip: Annotated[float, Field(ge=0, le=1e30)] = 0.0
    """Gradient norm over all dense parameters is scaled to at most this. 0 = never."""


class EarlyStopping(Section):
    patience: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Epochs without improvement of the figure on validation data before training stops. 0 = never."""
    metric: Annotated[str, Field(min_length=1, max_length=200)] = "auto"
    """Figure that is to improve, and that the best checkpoint is chosen by: auc, logloss, gauc, recall@10, …; with
    `loss: squared`, rmse or mae. auto: auc, or rmse."""
    direction: Literal["auto", "max", "min"] = "auto"
    """Whether larger (max) or smaller (min) is better; auto: as the figure's meaning says, max for one of your own."""
    min_delta: Annotated[float, Field(ge=0, le=1)] = 0.0
    """What counts as an improvement."""


class Train(Section):
    loss: Loss = "log"
    """log: labels are 0 or 1, and the model predicts the probability of 1. squared: labels are any finite numbers, and
    the model predicts the number: mean squared error, summed over labels. It starts from the mean label of the first
    `features.fit_rows` rows. A row counts as a click of a key where its first label is above 0.5, with either."""
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 5
    """Passes over the training data."""
    batch_size: Annotated[int, Field(ge=1, le=1_000_000)] = 1024
    """Rows per step."""
    optimizer: DenseOptimizer = DenseOptimizer()
    """How the dense parameters learn."""
    frozen: Annotated[list[Annotated[str, Field(pattern=FROZEN_PATTERN)]], Field(max_length=64)] = []
    """Parts of the model that do not learn, for a run that begins with --warm-start: names or patterns of dense
    parameters (mlp, mlp.0.weight, cross.*) and of tables (embedding, linear). A frozen table gets no new rows, and is
    not for geo."""
    average: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Predictions use a moving average of the dense parameters that keeps this share at each step. 0 = no average."""
    staleness: Annotated[int, Field(ge=0, le=1)] = 0
    """single, collective: 1 pulls rows while the step before is still computing: faster on many cores, as reproducible
    as 0."""
    log_every: Annotated[int, Field(ge=1, le=10**12)] = 100
    """Steps between lines of metrics."""
    log_format: LineFormat = "clickline"
    """How lines of metrics look on the screen and in logs; paddlerec: as PaddleRec's, for programs that read those."""
    max_steps: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Stop after this many steps of this run. 0 = no limit."""
    early_stopping: EarlyStopping = EarlyStopping()
    """When to stop before the last epoch."""
    tensorboard: bool = True
    """Write event files for TensorBoard into the run's directory."""

    @property
    def stopping_metric(self) -> str:
        """The figure of early stopping, with auto decided."""
        if self.early_stopping.metric != "auto":
            return self.early_stopping.metric
        return "rmse" if self.loss == "squared" else "auc"


CheckpointTransfer = Literal["auto", "directory", "network"]


class CheckpointSettings(Section):
    every_steps: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Steps between checkpoints. 0 = none within an epoch."""
    every_epochs: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Epochs between checkpoints. 0 = only at the end."""
    keep: Annotated[int, Field(ge=1, le=10_000)] = 3
    """How many of the newest are kept; the best one is always kept."""
    interrupt_timeout: Annotated[float, Field(ge=0, le=86_400)] = 10.0
    """Seconds for an interrupted run to end its step, and again to write a last checkpoint. 0 = it writes none."""
    transfer: CheckpointTransfer = "auto"
    """How parts of checkpoints get from servers to the coordinator, or from ranks to rank 0, and back: by the run's
    directory, which all of them must see then, or over the network; auto: by the directory as far as they see it."""
