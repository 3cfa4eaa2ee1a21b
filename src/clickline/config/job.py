"""The job: everything a run needs to know, typed."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from clickline.config.cluster import Cluster, Strategy
from clickline.config.data import Data
from clickline.config.features import Features
from clickline.config.metric_settings import MetricSettings
from clickline.config.model import ModelSettings
from clickline.config.secrets.secret_checks import check_plain
from clickline.config.section import Section
from clickline.config.tables import Tables
from clickline.config.training import CheckpointSettings, Train

# Names a directory below `output`, so it must not lead out of it: no separators, no leading dot.
NAME_PATTERN = r"^\w[\w.-]*$"
NAME_LENGTH = 100


class Job(Section):
    name: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH, pattern=NAME_PATTERN)] = "clickline"
    """Name of the run; its directory is output/name. A job file that does not give one is named after itself."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Everything random follows from it."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 0
    """Strategy single: threads for dense maths and tables, 0 = one per core. Others: see cluster.threads."""
    output: Annotated[str, Field(min_length=1), AfterValidator(check_plain)] = "runs"
    """Directory under which runs are written, or a URL: s3://bucket/prefix, webhdfs://host:port/path, file:///path.
    Runs at a URL are trained in a copy below the cache directory and uploaded while they train; credentials come from
    the environment (docs/storage.md)."""
    data: Data = Data()
    """Where rows come from."""
    features: Features = Features()
    """What rows mean."""
    model: ModelSettings = ModelSettings()
    """What learns."""
    tables: Tables = Tables()
    """How the sparse part learns."""
    train: Train = Train()
    """How long and how fast."""
    metrics: MetricSettings = MetricSettings()
    """What is measured on validation and test data beside AUC, logloss and calibration, or RMSE and MAE."""
    checkpoint: CheckpointSettings = CheckpointSettings()
    """What is kept."""
    strategy: Strategy = "auto"
    """How trainers agree; auto: async with parameter servers, collective with several trainers alone, else single."""
    cluster: Cluster = Cluster()
    """How many processes, and how they work together."""

    @property
    def resolved_strategy(self) -> Strategy:
        """The strategy, with auto decided."""
        if self.strategy != "auto":
            return self.strategy
        if self.cluster.pservers:
            return "async"
        return "collective" if self.cluster.trainers > 1 else "single"
