"""Stores of runs that refuse, stay away or are in use: said before training begins, and nothing is lost later."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clickline.errors import CheckpointError, JobError, PeerError, ReplacedError
from clickline.objects.object_lock import holder_record
from clickline.train.preflight import check_job
from clickline.train.run_files.run_lock import VARIABLE, RunLock
from clickline.train.run_storage import run_lease
from clickline.train.run_storage.remote_run import RemoteRun
from clickline.train.run_storage.run_lease import LOCK, RunLease
from clickline.train.session import train_job
from support.doubles.s3_server import SECRET, CuttingProxy, ObjectServer, use_endpoint
from support.training.remote_runs import another_machine, complete_steps, job_at, names

FOREVER = 10_000


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    return another_machine(monkeypatch, tmp_path / "machine")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("s4://bucket/runs", "output: Protocol not known: s4; known protocols: file, memory, s3"),
        ("memory://runs", "output: what is at memory:// ends with the process"),
        ("https://host/runs", "output: what is at https:// can only be read"),
        ("simplecache::s3://bucket/runs", "output: a chain of file systems"),
        (f"s3://user:{SECRET}@bucket/runs", "output: the address holds a password"),
    ],
)
def test_a_url_that_runs_cannot_be_kept_at_is_refused_with_the_job(
    output: str, problem: str, criteo: dict[str, str]
) -> None:
    with pytest.raises(JobError) as caught:
        check_job(job_at(output, criteo))
    assert problem in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_missing_package_is_named_with_the_job(criteo: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
    with pytest.raises(JobError, match=r"output: needs a package that is not installed: pip install 'clickline\[s3\]'"):
        check_job(job_at("s3://bucket/runs", criteo))


def test_a_bucket_that_is_not_there_is_not_made(s3: ObjectServer, criteo: dict[str, str]) -> None:
    with pytest.raises(CheckpointError, match="no such bucket or directory; make it first"):
        train_job(job_at("s3://no-such-bucket-here/runs", criteo))
    with s3.client() as client:
        assert "no-such-bucket-here" not in [each["Name"] for each in client.list_buckets()["Buckets"]]


def test_without_credentials_nothing_is_trained(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    use_endpoint(s3.endpoint)
    with pytest.raises(CheckpointError, match="no credentials; set AWS_ACCESS_KEY_ID"):
        train_job(job_at(f"s3://{bucket}/runs", criteo))


@pytest.fixture
def refusing(s3: ObjectServer) -> Iterator[None]:
    """The endpoint asks who one is, and knows nobody."""

    def ask(first_actions_without: bytes) -> None:
        httpx.post(f"{s3.endpoint}/moto-api/reset-auth", content=first_actions_without).raise_for_status()

    ask(b"0")
    yield
    ask(b"inf")


def test_without_permission_nothing_is_trained(bucket: str, refusing: None, criteo: dict[str, str]) -> None:
    with pytest.raises(CheckpointError, match="no permission to write and remove objects there") as caught:
        train_job(job_at(f"s3://{bucket}/runs", criteo))
    assert SECRET not in str(caught.value)


def test_a_run_that_another_process_writes_is_refused_and_left_alone(
    s3: ObjectServer, bucket: str, criteo: dict[str, str]
) -> None:
    url = f"s3://{bucket}/runs"
    lease = RunLease(RemoteRun(f"{url}/small").store)
    lease.acquire(print)
    with pytest.raises(PeerError, match=rf"{url}/small is in use by process \d+ on "):
        train_job(job_at(url, criteo, steps=10))
    assert complete_steps(s3, bucket) == []
    lease.check()
    lease.release()
    train_job(job_at(url, criteo, steps=10))
    assert complete_steps(s3, bucket) == [10]


class Elsewhere:
    """The lock of a process on another machine."""

    def __init__(self, url: str) -> None:
        self.store = RemoteRun(url).store
        self.record = json.dumps({**json.loads(holder_record()), "machine": "another", "host": "far-away"}).encode()
        assert self.store.create(LOCK, self.record)

    def renew(self, count: int) -> None:
        beat = json.dumps({"count": count, "time": time.time()}).encode()
        self.store.write(run_lease._beat_name(self.record), beat)


def test_the_lock_of_another_machine_is_taken_over_once_it_is_not_renewed(
    s3: ObjectServer, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lease, "LEASE", 0.5)
    Elsewhere(f"s3://{bucket}/run").renew(1)
    said: list[str] = []
    lease = RunLease(RemoteRun(f"s3://{bucket}/run").store)
    lease.acquire(said.append)
    assert "far-away still lives" in said[0]
    lease.check()
    lease.release()
    assert names(s3, bucket) == [], "nothing is left of either lock"


def test_a_holder_that_was_taken_over_finds_out_and_leaves_the_lock_of_the_other(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_lease, "LEASE", 0.5)
    monkeypatch.setattr(run_lease, "machine", lambda: "another")  # so that each has to watch the other
    slow, quick = (RunLease(RemoteRun(f"s3://{bucket}/run").store) for _ in range(2))
    slow.acquire(print)
    quick.acquire(print)
    with pytest.raises(ReplacedError, match=r"was taken over by process \d+"):
        slow.check()
    slow.release()
    quick.check()
    quick.release()


def test_the_lock_of_another_machine_that_is_renewed_is_respected(bucket: str) -> None:
    holder = Elsewhere(f"s3://{bucket}/run")
    holder.renew(0)
    ended = threading.Event()

    def renew_on() -> None:
        count = 0
        while not ended.wait(0.3):
            count += 1
            holder.renew(count)

    thread = threading.Thread(target=renew_on)
    thread.start()
    try:
        with pytest.raises(PeerError, match=r"in use by process \d+ on far-away"):
            RunLease(RemoteRun(f"s3://{bucket}/run").store).acquire(print)
    finally:
        ended.set()
        thread.join()


def test_rank_0_finds_out_that_its_launcher_was_replaced_at_the_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunLock(tmp_path / "copy", role="train") as launcher:
        monkeypatch.setenv(VARIABLE, launcher.nonce)
        rank = RunLock(tmp_path / "copy", role="train, rank 0")
        assert rank.lent
        rank.check()
        launcher.revoke("s3://bucket/run was taken over")
        for lock, reason in ((launcher, "s3://bucket/run was taken over"), (rank, "a process on another machine")):
            with pytest.raises(ReplacedError, match=reason):
                lock.check()


class CutsWhenTrainingBegins:
    """A watcher that lets the store vanish at the first line of training."""

    def __init__(self, proxy: CuttingProxy) -> None:
        self._proxy = proxy
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def begin(self, title: str) -> None:
        if title.startswith("epoch"):
            self._proxy.cut("request", "PUT", times=FOREVER)

    def advance(self, *, share: float | None, facts: object) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.mark.heavy
def test_a_store_that_stays_away_fails_the_run_at_its_end_and_loses_nothing(
    s3: ObjectServer,
    bucket: str,
    proxy: CuttingProxy,
    criteo: dict[str, str],
    machine: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setattr("s3fs.S3FileSystem.retries", 1)
    monkeypatch.setenv("CLICKLINE_UPLOAD_PATIENCE", "2")
    use_endpoint(proxy.endpoint)
    job = job_at(f"s3://{bucket}/runs", criteo)
    watcher = CutsWhenTrainingBegins(proxy)
    with pytest.raises(CheckpointError, match=rf"nothing is lost: {machine}/runs/\w+/small has the whole run"):
        train_job(job, watcher=watcher)
    assert sum("training goes on" in line for line in watcher.lines) == 1, "said once"
    assert complete_steps(s3, bucket) == []

    use_endpoint(s3.endpoint)
    said = CutsWhenTrainingBegins(proxy)
    result = train_job(job, resume=True, watcher=said)
    assert result.steps == 30
    assert not any(line.startswith("fetching") for line in said.lines), "the local copy was ahead"
    assert complete_steps(s3, bucket) == [10, 20, 30]
    assert "runs/small/result.json" in names(s3, bucket)
