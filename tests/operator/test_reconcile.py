"""The reconciler alone, against a cluster in memory: whatever happens, in whatever order, a job comes to its end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline.errors import JobError
from clickline.operator.controller.job_patches import merge_patch
from clickline.operator.job.job_status import JobStatus
from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.names import REVISION_ANNOTATION, endpoints_name
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.objects.quantities import quantity, quantity_text
from clickline.operator.reconcile.plan import Deletion, Observed, Plan, ReconcileSettings
from clickline.operator.reconcile.port_blocks import allocate
from clickline.operator.reconcile.reconcile import reconcile
from support.kubernetes.jobs_client import paddle_job, role

START = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = ReconcileSettings(retry_delay=10)


@dataclass
class SimulatedCluster:
    """A job and its pods, changed by plans, of which an operator that is killed carries out only the first steps."""

    job: PaddleJob
    pods: dict[str, ObservedPod] = field(default_factory=dict)
    published: dict[str, dict[str, str]] = field(default_factory=dict)
    now: datetime = START
    made: int = 0

    def look(self, *, steps: int = 1000) -> Plan:
        plan = reconcile(Observed(job=self.job, pods=list(self.pods.values())), settings=SETTINGS, now=self.now)
        actions: list[Any] = [*plan.publish, plan.status, *plan.deletions, *plan.creations]
        for action in actions[:steps]:
            self._carry_out(action)
        return plan

    def _carry_out(self, action: Any) -> None:
        if isinstance(action, JobStatus):
            # As it comes back from the API server.
            stored = merged(self.job.status.to_object(), merge_patch(self.job.status.to_object(), action.to_object()))
            self.job = replace(self.job, status=JobStatus.model_validate(stored))
            assert self.job.status == action
        elif isinstance(action, dict) and action["kind"] == "ConfigMap":
            self.published[action["metadata"]["name"]] = action["data"]
        elif isinstance(action, dict) and action["kind"] == "Pod":
            self._make(action)
        elif isinstance(action, Deletion) and action.resource == "pods":
            assert self.pods[action.name].uid == action.uid
            del self.pods[action.name]

    def _make(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        assert name not in self.pods
        _, part, index = name.rsplit("-", 2)
        self.made += 1
        self.pods[name] = ObservedPod(
            name=name,
            uid=f"uid-{self.made}",
            role=part,
            index=int(index),
            state="pending",
            revision=int(body["metadata"]["annotations"][REVISION_ANNOTATION]),
        )

    def schedule(self) -> None:
        """Pods get addresses, and run if their endpoints are published."""
        for name, pod in self.pods.items():
            if pod.state == "pending":
                endpoints = endpoints_name(self.job, pod.revision)
                state: Any = "running" if endpoints in self.published else "pending"
                self.pods[name] = replace(pod, ip=f"10.0.0.{pod.uid.removeprefix('uid-')}", state=state)

    def end(self, name: str, state: Any) -> None:
        if name in self.pods and self.pods[name].state == "running":
            self.pods[name] = replace(self.pods[name], state=state, exit_code=1 if state == "failed" else None)

    def settle(self) -> None:
        """An operator that is not killed, and a kubelet, with all the time that they need."""
        for _ in range(60):
            before = self.job.status, dict(self.pods)
            plan = self.look()
            self.schedule()
            self.now += timedelta(seconds=400)
            if before == (self.job.status, self.pods) and plan.look_again_after is None:
                return
        raise AssertionError(f"it never comes to rest: {self.job.status}")


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch applied, as of RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    whole = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            whole.pop(key, None)
        else:
            whole[key] = merged(whole.get(key), value)
    return whole


def cluster(**spec: Any) -> SimulatedCluster:
    body = {"metadata": {"namespace": "n", "name": "j", "uid": "u"}, "spec": paddle_job("j", **spec)["spec"]}
    return SimulatedCluster(PaddleJob.from_object(body))


SHAPES = {
    "servers": {"ps": role(2), "worker": role(2)},
    "services": {"intranet": "Service", "ps": role(2), "worker": role(2)},
    "host": {"intranet": "Host", "ps": role(1), "worker": role(2)},
    "ranks": {"worker": role(3)},
    "elastic": {"elastic": 1, "worker": role(3)},
    "single": {"worker": role(1)},
}
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["look", "killed", "schedule", "fail", "lose", "wait", "workers", "servers"]),
        st.integers(min_value=0, max_value=3),
    ),
    max_size=25,
)


@pytest.mark.parametrize("shape", SHAPES)
@given(runs=st.booleans(), events=EVENTS)
@settings(max_examples=40)
def test_whatever_happens_a_job_runs_in_the_end_with_the_pods_it_should_have(
    shape: str, runs: bool, events: list[tuple[str, int]]
) -> None:
    world = cluster(backoffLimit=1000, **SHAPES[shape])
    failed: set[str] = set()
    if runs:
        world.settle()
    for event, number in events:
        names = sorted(world.pods)
        name = names[number % len(names)] if names else ""
        if event == "look":
            world.look()
        elif event == "killed":
            world.look(steps=number)
        elif event == "schedule":
            world.schedule()
        elif event == "fail" and name and world.pods[name].state == "running":
            world.end(name, "failed")
            failed.add(world.pods[name].uid)
        elif event == "lose":
            world.pods.pop(name, None)
        elif event == "wait":
            world.now += timedelta(seconds=10**number)
        elif event in ("workers", "servers") and number:
            part = "worker" if event == "workers" else "ps"
            spec = world.job.spec
            if (before := spec.roles().get(part)) is not None:
                changed = spec.model_copy(update={part: before.model_copy(update={"replicas": number})})
                world.job = replace(world.job, spec=changed)
    world.settle()
    status = world.job.status
    wanted = {name for names in world.job.pod_names().values() for name in names}
    assert status.phase == "Running", status.message
    assert set(world.pods) == wanted
    assert all(pod.state == "running" and pod.revision >= status.restart_revision for pod in world.pods.values())
    assert {failure.uid for failure in status.failures} <= failed
    assert status.restarts <= len(failed)  # no failure is counted twice
    for pod in world.pods.values():
        # Whoever a pod connects to is where it was told, whatever has been replaced since it started.
        told = world.published[endpoints_name(world.job, pod.revision)]
        for variable, part in (("PADDLE_PSERVERS_IP_PORT_LIST", "ps"), ("PADDLE_TRAINERS", "worker")):
            if variable in told and (part == "ps" or "ps" not in SHAPES[shape]):
                hosts = [address.partition(":")[0] for address in told[variable].split(",")]
                names = world.job.pod_names()[part]
                assert hosts == [name if shape == "services" else world.pods[name].ip for name in names]
    if shape == "host":
        assert len(set(status.port_blocks.values())) == len(status.port_blocks) >= len(wanted)
    for name in wanted:
        world.end(name, "succeeded")
    world.settle()
    assert world.job.status.phase == "Completed"
    assert world.pods == {}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("steps", range(8))
def test_a_failure_counts_once_wherever_the_operator_is_killed(shape: str, steps: int) -> None:
    world = cluster(**SHAPES[shape])
    world.settle()
    world.end("j-worker-0", "failed")
    world.look(steps=steps)
    world.look(steps=steps)
    world.settle()
    assert (world.job.status.phase, world.job.status.restarts) == ("Running", 1)


def test_a_failed_pod_is_replaced_after_longer_and_longer_times() -> None:
    world = cluster(ps=role(1), worker=role(1), backoffLimit=3)
    waits = []
    world.settle()
    for _ in range(3):
        world.end("j-worker-0", "failed")
        world.look()
        plan = world.look()
        waits.append(plan.look_again_after)
        world.settle()
    assert waits == [10, 20, 40]
    world.end("j-worker-0", "failed")
    world.settle()
    assert world.job.status.phase == "Failed"
    assert world.job.status.restarts == 4


def test_restarts_of_containers_count_towards_the_limit() -> None:
    world = cluster(worker=role(1), backoffLimit=2)
    world.settle()
    for restarts, phase in ((2, "Running"), (3, "Failed")):
        world.pods["j-worker-0"] = replace(world.pods["j-worker-0"], container_restarts=restarts)
        world.look()
        assert world.job.status.phase == phase
    assert "j-worker-0 was restarted 3 times" in (world.job.status.message or "")


def test_a_server_that_fails_after_all_workers_have_succeeded_fails_the_job() -> None:
    world = cluster(ps=role(1), worker=role(1))
    world.settle()
    world.end("j-worker-0", "succeeded")
    world.look()
    world.end("j-ps-0", "failed")
    world.look()
    assert world.job.status.phase == "Failed"
    assert "j-ps-0 failed after all workers had succeeded" in (world.job.status.message or "")


def test_servers_that_do_not_end_by_themselves_are_stopped_after_the_last_worker() -> None:
    world = cluster(cleanPodPolicy="Never", ps=role(1), worker=role(1))
    world.settle()
    world.end("j-worker-0", "succeeded")
    plan = world.look()
    assert (world.job.status.phase, plan.look_again_after) == ("Completing", SETTINGS.completing_seconds)
    world.settle()
    assert world.job.status.phase == "Completed"
    assert set(world.pods) == {"j-worker-0"}


def test_the_failure_that_caused_others_is_named_first() -> None:
    world = cluster(worker=role(3), backoffLimit=0)
    world.settle()
    ends = {"j-worker-0": (7, "2026-01-01T00:00:01Z"), "j-worker-1": (1, "3"), "j-worker-2": (137, "2")}
    for name, (code, time) in ends.items():
        world.pods[name] = replace(world.pods[name], state="failed", exit_code=code, ended_at=time, reason="Error")
    world.look()
    assert world.job.status.first_failure is not None
    assert world.job.status.first_failure.pod == "j-worker-2"


@given(
    held=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5).map(lambda n: 36000 + 20 * n), max_size=3),
    taken=st.frozensets(st.integers(0, 9).map(lambda n: 36000 + 20 * n)),
)
def test_blocks_of_ports_are_kept_and_never_shared(held: dict[str, int], taken: frozenset[int]) -> None:
    held = {pod: port for pod, port in held.items() if port not in taken and list(held.values()).count(port) == 1}
    blocks = allocate(held, "abcdef", taken=taken)
    assert blocks.keys() == set("abcdef")
    assert len(set(blocks.values())) == 6
    assert held.items() <= blocks.items()
    assert not taken & set(blocks.values())


def test_a_node_without_free_ports_is_an_error_that_says_so() -> None:
    taken = frozenset(range(36000, 56000, 20))
    with pytest.raises(JobError, match="no block of 20 ports is free for 'a'"):
        allocate({}, ["a"], taken=taken)


@pytest.mark.parametrize(
    ("given_text", "number", "text"),
    [
        ("500m", "0.5", "500m"),
        ("8Gi", "8589934592", "8Gi"),
        (4, "4", "4"),
        ("1e3", "1000", "1000"),
        ("1E", "1e18", ""),
    ],
)
def test_quantities_are_read_as_kubernetes_does(given_text: str, number: str, text: str) -> None:
    value = quantity(given_text)
    assert value == type(value)(number)
    assert not text or quantity_text(value) == text
