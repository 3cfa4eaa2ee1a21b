"""What the operator knows of jobs and pods: newer before older, and what is gone is forgotten."""

from __future__ import annotations

from typing import Any

from clickline.operator.controller.job_cache import JobCache
from clickline.operator.controller.work_queue import JobKey
from clickline.operator.job.paddle_job import PaddleJob
from support.kubernetes.jobs_client import paddle_job, role

KEY = JobKey("n", "j")


def job(version: int, *, uid: str = "u", **status: Any) -> dict[str, Any]:
    body = paddle_job("j", worker=role(2))
    body["metadata"] |= {"namespace": "n", "uid": uid, "resourceVersion": str(version)}
    return {**body, "status": status}


def pod(name: str, version: int, phase: str, *, owner: str = "u") -> dict[str, Any]:
    reference = {"kind": "PaddleJob", "uid": owner, "controller": True}
    metadata = {"namespace": "n", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    labels = {"paddle-res-type": "worker", "batch.paddlepaddle.org/job": "j"}
    return {"metadata": {**metadata, "labels": labels, "ownerReferences": [reference]}, "status": {"phase": phase}}


def states(cache: JobCache) -> dict[str, str]:
    body = cache.job(KEY)
    assert body is not None
    return {one.name: one.state for one in cache.observed(PaddleJob.from_object(body)).pods}


def test_an_older_word_about_an_object_does_not_replace_a_newer_one() -> None:
    cache = JobCache()
    cache.put_job(job(7, phase="Running"))
    cache.put_job(job(5, phase="Pending"))
    cache.put_pod(pod("j-worker-0", 9, "Succeeded"))
    cache.put_pod(pod("j-worker-0", 8, "Pending"))
    assert (cache.job(KEY) or {})["status"] == {"phase": "Running"}
    assert states(cache) == {"j-worker-0": "succeeded"}


def test_a_job_that_was_made_again_is_another_one_with_pods_of_its_own() -> None:
    cache = JobCache()
    cache.put_job(job(7))
    cache.put_pod(pod("j-worker-0", 8, "Succeeded"))
    cache.put_job(job(9, uid="second"))
    assert states(cache) == {}
    cache.drop_job(job(8))  # the word of the first one's end comes late
    assert cache.job(KEY) is not None


def test_what_is_gone_is_forgotten() -> None:
    cache = JobCache()
    cache.put_job(job(7))
    cache.put_pod(pod("j-worker-0", 8, "Succeeded"))
    cache.put_pod(pod("j-worker-1", 8, "Succeeded"))
    cache.put_pod(pod("j-worker-9", 8, "Succeeded", owner=""))  # nobody's
    assert cache.uids() == {"u", "uid-j-worker-0", "uid-j-worker-1"}
    cache.forget({"uid-j-worker-1"})
    assert states(cache) == {"j-worker-0": "succeeded"}
    cache.forget({"u"})
    assert cache.job(KEY) is None


def test_ports_of_one_job_are_taken_for_another_before_its_status_says_so() -> None:
    cache = JobCache()
    cache.put_job(job(7))
    other = PaddleJob.from_object(job(1, uid="other"))
    cache.reserve("u", [36000])
    assert cache.observed(other).taken_ports == {36000}
    cache.put_job(job(8, portBlocks={"j-worker-0": 36020}))
    assert cache.observed(other).taken_ports == {36000, 36020}
    cache.forget({"u"})
    assert cache.observed(other).taken_ports == set()
