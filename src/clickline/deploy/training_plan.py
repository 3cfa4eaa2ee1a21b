"""What the training pod of a suite is to do: its job, and the hours of its window. Made of values, read in the pod."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from clickline.config import Job
from clickline.config.loading.reader import checked_settings, read_job, read_settings
from clickline.config.section import Section
from clickline.deploy.objects.building_blocks import STORE
from clickline.deploy.objects.suite_names import SuiteNames
from clickline.deploy.values import DEMO, HOUR_FORM, Values
from clickline.files.digests import stream_sha256

PLAN_FILE = "training.yaml"
RUNS, DEMO_DATA, VERSIONS = f"{STORE}/runs", f"{STORE}/demo-data", f"{STORE}/versions"
_DEMO_JOB: dict[str, Any] = {
    "data": {"format": "criteo"},
    "model": {"hidden": [64, 32]},
    "train": {"epochs": 1, "log_every": 50},
}
"""Enough for the demo's rows, and quick on a small machine."""


class TrainingPlan(Section):
    """The file that the training pod is given."""

    suite: str
    """Name of the suite, with which the names of runs begin."""
    namespace: str
    """Where PaddleJobs are made."""
    job: dict[str, Any]
    """The job, without its name and its data's paths."""
    demo_rows: int = 0
    """Rows of demo data to make first; 0: none."""
    train: list[str] = []
    """Training data; %Y%m%d/%H and the like stand for the hour."""
    test: list[str] = []
    """Test data."""
    start: str = ""
    """First hour; empty: no window."""
    end: str = ""
    """Last hour."""
    done: str = ""
    """What must exist before an hour is trained."""
    versions: str = VERSIONS
    """The store to publish to."""
    pull_policy: str = "IfNotPresent"
    """When nodes fetch the image."""

    def steps(self) -> Iterator[TrainingStep]:
        """What is trained, one after the other."""
        if not self.start:
            # Another job, or other data, is another run.
            content = self.model_dump_json().encode()
            digest = stream_sha256([content], limit=len(content))[1][:8]
            yield TrainingStep(f"{self.suite}-{digest}", "", self.train, self.test, self.done)
            return
        # In UTC, whatever the node's time: an hour of a window is a directory's name and no moment.
        hour, last = parse_hour(self.start), parse_hour(self.end)
        while hour <= last:
            train, test = ([hour.strftime(path) for path in part] for part in (self.train, self.test))
            name = f"{self.suite}-{hour:%Y%m%d%H}"
            yield TrainingStep(name, hour.strftime(HOUR_FORM), train, test, hour.strftime(self.done))
            hour += timedelta(hours=1)

    def job_of(self, step: TrainingStep, *, train: list[str], test: list[str]) -> Job:
        """The job of a step, whose data may be the demo's."""
        data = {**self.job.get("data", {}), "train": train, "test": test}
        return checked_settings({**self.job, "name": step.name, "data": data}, Job, source=f"the job of {step.name}")


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """One run and its version."""

    name: str
    """Of the run."""
    hour: str
    """YYYYmmdd/HH; empty where there is no window."""
    train: list[str]
    test: list[str]
    done: str


def training_plan(values: Values, names: SuiteNames, *, beside: Path) -> TrainingPlan:
    """The plan of values; their job file is looked for in the directory `beside`. Raises JobError."""
    keys = json.loads(json.dumps(_DEMO_JOB))
    if values.job:
        keys = read_job(beside / values.job).job.model_dump(mode="json", exclude_unset=True)
        # Each hour is a run of its own, with a name of its own.
        keys.pop("name", None)
        data = keys.get("data", {})
        train, test = values.data.train or data.get("train", []), values.data.test or data.get("test", [])
    else:
        train, test = values.data.train, values.data.test
    if values.model:
        keys["model"] = {**keys.get("model", {}), "name": values.model}
    training = values.training
    keys["output"] = RUNS
    keys["cluster"] = {
        **keys.get("cluster", {}),
        "pservers": training.pservers,
        "trainers": training.trainers,
        "kubernetes": _pods(values, names),
    }
    is_demo = values.data.source == DEMO and not train
    plan = TrainingPlan(
        suite=values.name,
        namespace=names.namespace,
        job=keys,
        demo_rows=values.data.rows if is_demo else 0,
        train=list(train),
        test=list(test),
        start=values.data.start,
        end=values.data.end,
        done=values.data.done,
        pull_policy=values.pull_policy,
    )
    # Mistakes of the job are told here and not by a pod.
    for step in plan.steps():
        plan.job_of(step, train=["/checked-later"], test=[])
        break
    return plan


def read_plan(path: Path) -> TrainingPlan:
    return read_settings(path, TrainingPlan, what="a training plan")


def parse_hour(text: str) -> datetime:
    return datetime.strptime(text, HOUR_FORM).replace(tzinfo=UTC)


def _pods(values: Values, names: SuiteNames) -> dict[str, Any]:
    """`cluster.kubernetes` of the job: what its pods are made of."""
    training = values.training
    store = {"claim": values.storage.claim or names.claim, "path": STORE}
    return {
        "namespace": names.namespace,
        "image": values.image_of_containers,
        "pull_secret": values.pull_secret,
        "pserver": training.pserver.model_dump(),
        "trainer": training.trainer.model_dump(),
        "volumes": [store, *(volume.model_dump() for volume in training.volumes)],
        "environment": dict(training.environment),
        "secrets": [secret.model_dump() for secret in training.secrets],
        # A server's address stays when its pod is replaced; the other parts need the cluster's DNS too.
        "intranet": "Service",
        "queue": training.queue,
        "kueue_queue": training.kueue_queue,
        "priority_class": training.priority_class,
    }
