"""What the training pod does: for each hour a PaddleJob, from the weights of the hour before, and a version.

It may be killed at any time. An hour that has a result is not trained again, one that is published is not published
again, and a PaddleJob that runs is followed on.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from clickline.config import Job
from clickline.config.secrets.secret_references import resolve
from clickline.data.synthetic import write_criteo
from clickline.deploy.objects.building_blocks import USER
from clickline.deploy.objects.suite_names import SUITE_LABEL
from clickline.deploy.training_plan import DEMO_DATA, RUNS, TrainingPlan, TrainingStep
from clickline.errors import DataError, JobError
from clickline.files.atomic import replace_json
from clickline.files.storage import open_storage
from clickline.launch.job_records import new_job_name
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.launch.kubernetes.job_ending import end_job
from clickline.launch.kubernetes.job_manifests import JOB_LABEL, RUN_LABEL, JobManifests, job_manifests, label_value
from clickline.launch.kubernetes.job_monitor import JobFailed, JobMonitor, JobNotStarted
from clickline.objects.object_store import ObjectStore
from clickline.progress import Watcher
from clickline.publish.publisher import Settings, publish
from clickline.train.checkpoints import checkpoint_files
from clickline.versions.store import open_store

_LOOK_EVERY = 5.0
_PAGE = {"path": "/livez", "port": "metrics"}
_PROBES: dict[str, object] = {
    "startupProbe": {"httpGet": _PAGE, "periodSeconds": 5, "failureThreshold": 60},
    "livenessProbe": {"httpGet": _PAGE, "periodSeconds": 20, "timeoutSeconds": 5},
    "readinessProbe": {"httpGet": {**_PAGE, "path": "/readyz"}, "periodSeconds": 5, "timeoutSeconds": 5},
}
"""The port is one that the operator gives to every pod of a job."""
Emit = Callable[[Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class StepFiles:
    """Where a step keeps what it came to."""

    run: Path

    @property
    def result(self) -> Path:
        """Written by the run when it has finished."""
        return self.run / "result.json"

    @property
    def published(self) -> Path:
        """Written here, with the version's number."""
        return self.run / "published.json"


class TrainingWindow:
    """Carries out one plan."""

    def __init__(
        self, plan: TrainingPlan, client: ClusterClient, *, watcher: Watcher, emit: Emit, runs: Path = Path(RUNS)
    ) -> None:
        """`emit` is given each stage that has ended, with the seconds that it took."""
        self._plan, self._client, self._watcher, self._emit, self._runs = plan, client, watcher, emit, runs

    def run(self) -> None:
        """All hours. Raises what training or publishing raises; started again, it goes on there."""
        before = ""
        for step in self._plan.steps():
            # By a file on the suite's claim and not by the store: versions of a window that was changed since are there
            # too, and do not say which hour they are of.
            files = StepFiles(self._runs / step.name)
            if not files.published.exists():
                self._carry_out(step, files, before)
            before = str(files.run)
        self._emit({"stage": "done"})

    def _carry_out(self, step: TrainingStep, files: StepFiles, before: str) -> None:
        train, test = step.train, step.test
        if step.done:
            with self._stage("data", step):
                self._wait_for(step.done)
        if self._plan.demo_rows:
            with self._stage("data", step):
                train, test = demo_paths(self._plan, step)
        job = self._plan.job_of(step, train=train, test=test)
        if not files.result.exists():
            with self._stage("training", step):
                self._train(job, before)
        try:
            checkpoint = Path(json.loads(files.result.read_text(encoding="utf-8"))["checkpoint"])
        except (OSError, ValueError, KeyError) as error:
            raise JobError(
                f"{files.result}: the result of {step.name} is not there: {error}; the claim of the suite must be "
                "mounted by training's pods and by this one (storage.access)"
            ) from None
        # Killed after publishing and before that is noted, it publishes again: the same rows under the next number.
        began = time.monotonic()
        manifest = publish(checkpoint, open_store(self._plan.versions), Settings(), watcher=self._watcher)
        replace_json(files.published, {"version": manifest.version})
        self._ended("publishing", step, began, version=manifest.version)

    def _train(self, job: Job, before: str) -> None:
        """Make the PaddleJob of a step, or find the one that was made before this pod was killed; wait for its end."""
        namespace, client = self._plan.namespace, self._client
        # Found by labels: its name has the time in it, and is not known to a pod that takes another's place.
        label = f"{SUITE_LABEL}={self._plan.suite},{RUN_LABEL}={label_value(job.name)}"
        found = client.list("PaddleJob", namespace, labels=label)
        manifests = job_manifests(
            job,
            workspace=Path.cwd(),
            name=found[0]["metadata"]["labels"][JOB_LABEL] if found else new_job_name(),
            namespace=namespace,
            arguments=self._beginning(job, before),
        )
        made = found[0] if found else client.create(_of_suite(manifests, self._plan))
        uid = str(made["metadata"]["uid"])
        try:
            client.create(manifests.owned_files(uid))
        except ClusterRefusal as error:
            if not error.is_conflict:  # there already, unless this pod was killed between the two
                raise
        # Its lines are the watcher's: this pod's own log has them, and keeps them when the job's pods are gone.
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            patience = job.cluster.start_timeout
            monitor = JobMonitor(
                client, namespace, manifests.name, start_timeout=patience, watcher=self._watcher, log=nowhere
            )
            try:
                monitor.follow(uid)
            except (JobFailed, JobNotStarted):
                # Started again by Kubernetes, after a while, this pod makes another that goes on from the checkpoint.
                end_job(client, namespace, manifests.name)
                raise
        end_job(client, namespace, manifests.name)

    def _beginning(self, job: Job, before: str) -> list[str]:
        """How the run begins: where it was, if it has been begun, or with the weights of the hour before."""
        # A warm start again would throw away what the hour has learned until its first PaddleJob failed.
        if checkpoint_files.find(self._runs / job.name / "checkpoints"):
            return ["--resume"]
        return ["--warm-start", before] if before else []

    def _wait_for(self, path: str) -> None:
        announced = False
        while True:
            if ObjectStore(path, *open_storage(path, {}, resolve=resolve, error=DataError)).exists():
                return
            if not announced:
                self._watcher.say(f"waiting for {path}, which says that the hour's data is complete")
                announced = True
            time.sleep(_LOOK_EVERY)

    def _stage(self, stage: str, step: TrainingStep) -> ExitStack:
        exits, began = ExitStack(), time.monotonic()

        def tell(kind: object, *_: object) -> None:
            if kind is None:
                self._ended(stage, step, began)

        exits.push(tell)
        return exits

    def _ended(self, stage: str, step: TrainingStep, began: float, **more: object) -> None:
        seconds = round(time.monotonic() - began, 1)
        self._emit({"stage": stage, "run": step.name, "hour": step.hour, "seconds": seconds, **more})


def _of_suite(manifests: JobManifests, plan: TrainingPlan) -> dict[str, object]:
    """The PaddleJob, marked as the suite's, with pods that may write to the suite's claim."""
    body = manifests.paddle_job
    body["metadata"]["labels"][SUITE_LABEL] = plan.suite
    for role in ("ps", "worker"):
        if role not in body["spec"]:  # a single process and ranks have no servers
            continue
        spec = body["spec"][role]["template"]["spec"]
        spec["securityContext"] = {"runAsNonRoot": True, "runAsUser": USER, "fsGroup": USER}
        for container in spec["containers"]:
            container["imagePullPolicy"] = plan.pull_policy
            container.update(_PROBES)
    return dict(body)


def demo_paths(
    plan: TrainingPlan, step: TrainingStep, *, directory: Path = Path(DEMO_DATA)
) -> tuple[list[str], list[str]]:
    """Training and test data of the demo for a step: one log, made once, and divided among the hours."""
    rows = plan.demo_rows
    log = directory / f"criteo-{rows}.tsv"
    truth = log.with_suffix(".json")
    if not truth.exists():  # it gets its name last
        directory.mkdir(parents=True, exist_ok=True)
        write_criteo(log, rows=rows, seed=1, test_rows=rows // 5, force=True)
    train, test = log.with_suffix(".train.tsv"), log.with_suffix(".test.tsv")
    if not step.hour:
        return [str(train)], [str(test)]
    # In a directory that has the number of hours in its name: a longer window divides the log anew.
    names = [one.name for one in plan.steps()]
    parts = [directory / f"criteo-{rows}-{len(names)}" / f"{name}.tsv" for name in names]
    part = parts[names.index(step.name)]
    if not part.exists():
        _divide(train, parts)
    return [str(part)], [str(test)]


def _divide(log: Path, parts: list[Path]) -> None:
    """Lines in turn, so that the hours are alike."""
    # Written beside and renamed as a whole: a pod that is killed here leaves no hour with half of its lines.
    staging = parts[0].parent.with_name(f".{parts[0].parent.name}-writing")
    staging.mkdir(parents=True, exist_ok=True)
    with ExitStack() as exits, log.open("rb") as lines:
        files = [exits.enter_context((staging / part.name).open("wb")) for part in parts]
        for number, line in enumerate(lines):
            files[number % len(files)].write(line)
    staging.rename(parts[0].parent)
