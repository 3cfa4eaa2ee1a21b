"""Makes the objects of a suite in a cluster, and waits until a prediction comes back; says what the time goes to."""

from __future__ import annotations

import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from clickline.deploy.deployed_health import delivery_of, examine_deployed, is_ready
from clickline.deploy.deployed_suite import MANAGER, DeployedSuite
from clickline.deploy.objects.suite_names import CLIENT, CUBE, PREDICTOR, TRAINING
from clickline.deploy.values import Values
from clickline.errors import PeerError
from clickline.launch.kubernetes.cluster_client import ClusterClient, ClusterRefusal
from clickline.operator.job.fields import KubernetesObject

_LOOK_EVERY = 1.0
_LAST_LINES = 15


@dataclass(frozen=True, slots=True)
class StageTime:
    """A stage that has ended."""

    stage: str
    seconds: float
    note: str = ""


@dataclass(slots=True)
class DeployReport:
    """What a deployment came to."""

    suite: str
    namespace: str
    objects: int
    stages: list[StageTime] = field(default_factory=list)
    version: int | None = None
    seconds: float = 0.0


class SuiteDeployment:
    """Makes one suite in a cluster."""

    def __init__(
        self,
        client: ClusterClient,
        values: Values,
        files: dict[str, list[KubernetesObject]],
        *,
        namespace: str,
        on_stage: Callable[[StageTime], None] = lambda _: None,
    ) -> None:
        self._client, self._values, self._namespace = client, values, namespace
        self._objects = [body for bodies in files.values() for body in bodies]
        (self._training_job,) = [body["metadata"]["name"] for body in self._objects if body["kind"] == "Job"]
        self.suite = DeployedSuite(client, namespace, values.name)
        self._on_stage, self._began = on_stage, time.monotonic()
        self.report = DeployReport(values.name, namespace, len(self._objects))

    def make(self) -> None:
        """All objects, after all of them were accepted in a dry run. Raises PeerError with everything that is wrong."""
        # A suite of which half was refused would wait for the other half without a word.
        self._check()
        # Before the pods that refer to it, which would be held up without it.
        if not self._values.token_secret:
            self._make_token()
        for body in self._objects:
            self._client.apply(body, manager=MANAGER)
        for job in self.suite.objects("Job", part=TRAINING):
            if job["metadata"]["name"] != self._training_job:  # of another plan, which this one replaces
                self._client.delete("Job", self._namespace, job["metadata"]["name"])

    def wait(self, *, seconds: float) -> DeployReport:
        """Until the first prediction has come back. Raises PeerError, with what is not well, when it takes too long."""
        # One after the other, though they overlap in the cluster: each is what the wait is for at that time.
        self._until("volumes", self._has_volumes, seconds)
        self._until("image", self._has_started, seconds)
        published = self._until_published(seconds)
        note = f"version {published}" if published else ""
        self._until("delivering", lambda: self._is_delivered(published), seconds, note=note)
        self._until("first prediction", self._has_predicted, seconds)
        self.report.version = published or None
        self.report.seconds = round(time.monotonic() - self._began, 1)
        return self.report

    def _check(self) -> None:
        self._client.version()  # PeerError if nobody answers
        problems = []
        if not self._client.has_kind("PaddleJob"):
            problems.append(
                f"{self._client.access.server} knows no PaddleJobs, as which training runs: kubectl create -f "
                "deploy/v1/crd.yaml -f deploy/v1/operator.yaml"
            )
        for body in self._objects:
            try:
                self._client.apply(body, manager=MANAGER, dry_run=True)
            except ClusterRefusal as error:
                problems.append(f"{body['kind']} {body['metadata']['name']}: {error}")
                if error.is_missing:  # of the namespace itself: all others would say the same
                    problems[-1] += f"; kubectl create namespace {self._namespace}"
                    break
        if problems:
            raise PeerError("the cluster cannot take the suite:\n" + "\n".join(f"  {problem}" for problem in problems))

    def _make_token(self) -> None:
        """A token for this suite, unless there is one."""
        name = self.suite.names.token_secret
        metadata = {"name": name, "namespace": self._namespace, "labels": self.suite.names.labels("token")}
        # Made only if there is none: one that clients know already must not change under them.
        content = {"token": b64encode(secrets.token_hex(16).encode()).decode()}
        try:
            self._client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": content})
        except ClusterRefusal as error:
            if not error.is_conflict:
                raise

    def _has_volumes(self) -> bool:
        # Of a class that waits for the first pod, a claim is bound only when that pod is scheduled.
        claims = self.suite.objects("PersistentVolumeClaim")
        return all((claim.get("status") or {}).get("phase") == "Bound" for claim in claims)

    def _has_started(self) -> bool:
        """Whether every container has been started once: its image is there."""
        # The training pod may have ended before this looks, if everything was trained by an earlier deployment.
        pods = [pod for pod in self.suite.objects("Pod") if (pod.get("status") or {}).get("phase") != "Succeeded"]
        statuses = [(pod.get("status") or {}).get("containerStatuses") or () for pod in pods]
        return bool(pods) and all(
            each and all(one.get("started") or one.get("restartCount") or "terminated" in one["state"] for one in each)
            for each in statuses
        )

    def _until_published(self, seconds: float) -> int:
        """Until training has published; its stages are told by the training pod itself."""
        told = 0
        while True:
            # Read anew each time: the training pod may have been replaced by another meanwhile.
            stages = list(self.suite.training_stages(job=self._training_job))
            for stage in stages[told:]:
                told += 1
                if "seconds" in stage:
                    self._ended(StageTime(stage["stage"], stage["seconds"], stage.get("hour") or ""))
                if "version" in stage:
                    return int(stage["version"])
            if any(stage["stage"] == "done" for stage in stages):
                return 0  # all was trained and published before
            for job in self.suite.objects("Job", part=TRAINING):
                conditions = (job.get("status") or {}).get("conditions") or ()
                if any(one["type"] == "Failed" and one["status"] == "True" for one in conditions):
                    raise PeerError(f"training has failed; its log ends with\n{self._training_log()}")
            self._give_up_after(seconds, "the first version")
            time.sleep(_LOOK_EVERY)

    def _training_log(self) -> str:
        for pod in self.suite.objects("Pod", part=TRAINING):
            try:
                with self._client.lines(self._namespace, pod["metadata"]["name"], tailLines=str(_LAST_LINES)) as lines:
                    return "\n".join(f"  {line}" for line in lines)
            except PeerError:
                continue
        return "  nothing"

    def _is_delivered(self, version: int) -> bool:
        """Whether every server of the cube has a version, and the last one published if transfer can be asked."""
        # Where NetworkPolicies keep the API server away from transfer, readiness of the cube's pods has to be enough.
        delivery = delivery_of(self.suite)
        if version and delivery is not None and not delivery.has_delivered(version):
            return False
        pods = self.suite.objects("Pod", part=CUBE)
        return len(pods) == self._values.cube.shards * self._values.cube.replicas and all(map(is_ready, pods))

    def _has_predicted(self) -> bool:
        pods = self.suite.objects("Pod", part=CLIENT if self._values.client else PREDICTOR)
        return bool(pods) and all(map(is_ready, pods))

    def _until(self, stage: str, condition: Callable[[], bool], seconds: float, *, note: str = "") -> None:
        began = time.monotonic()
        while not condition():
            self._give_up_after(seconds, stage)
            time.sleep(_LOOK_EVERY)
        self._ended(StageTime(stage, round(time.monotonic() - began, 1), note))

    def _ended(self, stage: StageTime) -> None:
        self.report.stages.append(stage)
        self._on_stage(stage)

    def _give_up_after(self, seconds: float, stage: str) -> None:
        if time.monotonic() - self._began > seconds:
            complaints = "\n".join(f"  {one}" for one in examine_deployed(self.suite)["complaints"]) or "  nothing"
            raise PeerError(
                f"{stage}: not within {seconds:g} s; what was made stays there (`clickline undeploy` removes it). Not "
                f"well are\n{complaints}"
            )
