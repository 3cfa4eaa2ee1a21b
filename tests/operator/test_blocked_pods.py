"""Pods that cannot start: the status, a condition and an event say which and why. The tests play the kubelet."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from clickline.operator.job.paddle_job import PaddleJob
from clickline.operator.objects.observed_pod import ObservedPod
from clickline.operator.objects.start_blocker import StartBlocker, start_blocker
from clickline.operator.reconcile.blocked_pods import note_blocked_pods
from clickline.operator.reconcile.plan import JobEvent
from support.kubernetes.jobs_client import JobsClient, paddle_job, role

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def waiting_pod(reason: str, message: str = "") -> dict[str, Any]:
    """A pod whose container waits."""
    container = {"name": "c", "image": "r/i:1", "envFrom": [{"configMapRef": {"name": "job"}}]}
    status = {"name": "c", "image": "", "state": {"waiting": {"reason": reason, "message": message}}}
    return {"spec": {"containers": [container]}, "status": {"phase": "Pending", "containerStatuses": [status]}}


@pytest.mark.parametrize(
    ("reason", "message", "kind", "words"),
    [
        ("ErrImagePull", "not found", "ImageNotAvailable", "the image 'r/i:1' cannot be pulled: check its name"),
        ("ImagePullBackOff", "Back-off", "ImageNotAvailable", "the image 'r/i:1' cannot be pulled: check its name"),
        ("ErrImageNeverPull", "", "ImageNotAvailable", "the image 'r/i:1' is not on the node, and imagePullPolicy"),
        ("InvalidImageName", "", "ImageNotAvailable", "the image 'r/i:1' is not the name of an image"),
        (
            "CreateContainerConfigError",
            'secret "store" not found',
            "ContainerNotCreated",
            "container 'c' cannot be made: secret \"store\" not found; make the Secret",
        ),
    ],
)
def test_what_keeps_a_pod_from_starting_is_said_in_words(reason: str, message: str, kind: str, words: str) -> None:
    blocker = start_blocker(waiting_pod(reason, message))
    assert blocker is not None
    assert (blocker.kind, blocker.sentence[: len(words)]) == (kind, words)
    if kind == "ImageNotAvailable":
        assert "`clickline image`" in blocker.sentence


@pytest.mark.parametrize(
    ("reason", "message"),
    [("ContainerCreating", ""), ("PodInitializing", ""), ("CreateContainerConfigError", 'configmap "job" not found')],
)
def test_a_pod_that_only_waits_for_its_turn_is_not_blocked(reason: str, message: str) -> None:
    assert start_blocker(waiting_pod(reason, message)) is None


def test_the_kubelets_words_of_a_try_stay_while_it_backs_off() -> None:
    job = PaddleJob.from_object(
        {**paddle_job("j", ps=role(1), worker=role(1)), "metadata": {"name": "j", "namespace": "n", "uid": "u"}}
    )
    pod = ObservedPod(name="j-ps-0", uid="p", role="ps", index=0, state="pending")
    events: list[JobEvent] = []
    status, messages = job.status, []
    for detail in ("", "401 Unauthorized", "", "401 Unauthorized (2)"):
        tried = replace(pod, blocker=StartBlocker("ImageNotAvailable", "no image", detail))
        status = note_blocked_pods(job, status, [tried], events, now=NOW)
        condition = status.condition("StartBlocked")
        assert condition is not None
        messages.append(condition.message)
    told = "j-ps-0 does not start: no image"
    assert messages == [told, *[f"{told} (401 Unauthorized)"] * 3]
    assert [event.reason for event in events] == ["ImageNotAvailable"]


def test_a_missing_image_is_in_the_status_and_in_what_kubectl_describes(jobs: JobsClient) -> None:
    jobs.create(paddle_job("no-image", ps=role(1), worker=role(2)))
    jobs.until_pods("no-image", "ps-0", "worker-0", "worker-1")
    for name in ("worker-0", "worker-1"):
        jobs.block_pod("no-image", name, reason="ErrImagePull", message="manifest unknown")
    jobs.block_pod("no-image", "ps-0", reason="Unschedulable", message="0/1 nodes are available: 1 Insufficient cpu.")
    words = "no-image-worker-0 and 1 other do not start: the image 'clickline:0.1.0' cannot be pulled"
    jobs.wait(lambda: words in jobs.status("no-image").get("message", ""), "a sentence about the image")
    described = jobs.kubectl("describe", "pdj", "no-image").stdout
    assert "ImageNotAvailable" in described
    assert "(manifest unknown)" in described
    assert [
        text for reason, text in jobs.events("no-image") if reason == "ImageNotAvailable" and "'clickline:0" in text
    ]
    jobs.run_pods("no-image", "worker-0", "worker-1")
    scheduler = "no-image-ps-0 does not start: no node takes it, the scheduler says: 0/1 nodes are available"
    jobs.wait(lambda: scheduler in jobs.status("no-image").get("message", ""), "the scheduler's sentence")
    jobs.run_pods("no-image", "ps-0")
    status = jobs.until("no-image", "Running")
    (condition,) = [one for one in status["conditions"] if one["type"] == "StartBlocked"]
    assert (condition["status"], condition["reason"]) == ("False", "Started")
