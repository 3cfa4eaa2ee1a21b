"""Whatever reads a run takes its URL: lists, status, figures, checkpoints, versions, the stages of `clickline up`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.config import Job
from clickline.errors import CheckpointError, ClicklineError
from clickline.launch.local.training_run import train_job
from clickline.launch.stack import stack_stages
from clickline.progress import LogOnly
from clickline.publish.publisher import Settings, publish
from clickline.serve.predictor.served_model import ServedModel
from clickline.train.checkpoints.checkpoint_figures import recorded
from clickline.train.run_files.run_directory import find_checkpoint, find_run
from clickline.train.run_files.run_result import Result
from clickline.train.run_files.run_summary import summaries_in, summary_of
from clickline.train.session import evaluation_of
from clickline.versions.golden_sample import read_sample
from clickline.versions.store import open_store
from support.doubles.s3_server import SECRET, ObjectServer
from support.doubles.webhdfs_server import WebHdfsServer
from support.processes import write_job
from support.training.remote_runs import another_machine, job_at, names, newest_in, objects, same_rows, settings_at


@pytest.fixture
def run(
    s3: ObjectServer, bucket: str, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Result:
    """A run of another machine."""
    another_machine(monkeypatch, tmp_path / "trainer")
    result = train_job(
        job_at(f"s3://{bucket}/runs", criteo, steps=20, strategy="single", data={"valid": [criteo["test"]]})
    )
    another_machine(monkeypatch, tmp_path / "reader")
    return result


def verb(*arguments: str | Path) -> str:
    """What a verb prints, in this process."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    assert SECRET not in done.output
    return done.stdout


def test_runs_are_listed_compared_and_their_status_is_shown(
    run: Result, criteo: dict[str, str], tmp_path: Path
) -> None:
    output = str(run.url).removesuffix("/small")
    (listed,) = summaries_in(output)
    assert (listed.path, listed.state, listed.steps, listed.test) == (run.url, "finished", 20, run.test)
    job = write_job(tmp_path / "job.yaml", settings_at(output, criteo))
    assert summary_of(job) == summary_of(str(run.url)) == listed
    other = write_job(tmp_path / "other.yaml", settings_at(output, criteo, name="other"))
    assert summary_of(other).state == "not run"
    status = json.loads((find_run(job, only=("status.json",)) / "status.json").read_text())
    assert status["phase"] == "finished"
    with pytest.raises(ClicklineError, match=f"{output}/nothing: there is no run at this URL"):
        find_run(f"{output}/nothing")


def test_verbs_take_the_url_of_a_run(run: Result, criteo: dict[str, str], tmp_path: Path) -> None:
    url = str(run.url)
    assert json.loads(verb("status", url, "--json"))["phase"] == "finished"
    checked = json.loads(verb("checkpoint", "verify", f"{url}/checkpoints/step-0000000020", "--json"))
    assert checked == {"path": f"{url}/checkpoints/step-0000000020", "ok": True, "step": 20}
    job = write_job(tmp_path / "job.yaml", settings_at(url.removesuffix("/small"), criteo))
    assert json.loads(verb("validate", job, "--json"))["run"] == url
    assert "test: " in verb("logs", "--run", url)


def test_figures_that_are_measured_later_are_kept_beside_the_checkpoint(
    run: Result, s3: ObjectServer, bucket: str, criteo: dict[str, str]
) -> None:
    with s3.client() as client:
        client.delete_object(Bucket=bucket, Key="runs/small/checkpoints/figures-0000000020.json")
    found = evaluation_of(checkpoint=str(run.url), paths=[criteo["test"]])
    assert found.figures["auc"] == run.test["auc"]
    assert "runs/small/checkpoints/figures-0000000020.json" in names(s3, bucket)
    assert recorded(find_checkpoint(str(run.url)))["test"].figures["auc"] == run.test["auc"]


def test_a_version_of_a_run_in_a_bucket_predicts_what_its_trainer_predicts(run: Result, tmp_path: Path) -> None:
    store = open_store(tmp_path / "versions")
    manifest = publish(str(run.url), store, Settings(sample_rows=16))
    assert manifest.training["step"] == find_checkpoint(str(run.url)).step
    served = ServedModel("ctr", store)
    assert served.refresh()
    loaded = served.model_version()
    sample = read_sample(tmp_path / "versions" / "v0000000001" / manifest.sample, schema=loaded.schema)
    seen = loaded.predict(sample.batch, requests=1)
    assert np.abs(seen - sample.probability).max() < 1e-5
    served.close()


def test_a_damaged_object_is_found_when_it_is_fetched(run: Result, s3: ObjectServer, bucket: str) -> None:
    name = "runs/small/checkpoints/step-0000000020/table-embedding.rows"
    content = bytearray(objects(s3, bucket)[name])
    content[100] ^= 1
    with s3.client() as client:
        client.put_object(Bucket=bucket, Key=name, Body=bytes(content))
    with pytest.raises(CheckpointError, match=rf"s3://{bucket}/{name}: damaged: "):
        find_checkpoint(f"{run.url}/checkpoints/step-0000000020")


def test_the_stages_of_up_keep_a_run_at_its_url(run: Result, criteo: dict[str, str], tmp_path: Path) -> None:
    job = write_job(
        tmp_path / "job.yaml",
        settings_at(
            str(run.url).removesuffix("/small"), criteo, steps=20, data={"valid": [criteo["test"]]}, strategy="single"
        ),
    )
    said: list[object] = []
    resolved = stack_stages.read_stack_job(job, state=tmp_path / "state", settings=[], overrides=[], emit=said.append)
    assert f"{resolved.output}/small" == run.url
    kept = stack_stages.train(resolved, fresh=False, watcher=LogOnly(), emit=said.append)
    assert (kept.how, kept.rows, kept.test) == ("kept", run.rows, run.test)
    store = open_store(tmp_path / "state" / "versions")
    assert stack_stages.publish(kept, store, watcher=LogOnly(), emit=said.append).version == 1
    further = Job.model_validate({**resolved.model_dump(), "train": {**resolved.train.model_dump(), "max_steps": 30}})
    resumed = stack_stages.train(further, fresh=False, watcher=LogOnly(), emit=said.append)
    assert resumed.how == "resumed"
    assert newest_in(resumed.directory).step == 30


@pytest.fixture
def hdfs(tmp_path: Path) -> Iterator[WebHdfsServer]:
    server = WebHdfsServer(tmp_path / "hdfs")
    yield server
    with suppress(OSError):
        server.close()


def test_a_run_on_hdfs_goes_on_on_another_machine(
    hdfs: WebHdfsServer, criteo: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_machine(monkeypatch, tmp_path / "first")
    url = f"webhdfs://clicks@127.0.0.1:{hdfs.port}/runs"
    train_job(job_at(url, criteo, steps=20, checkpoint={"keep": 1}))
    another_machine(monkeypatch, tmp_path / "second")
    result = train_job(job_at(url, criteo, steps=30, checkpoint={"keep": 1}), resume=True)
    there = hdfs.root / "runs" / "small"
    assert [place.name for place in (there / "checkpoints").glob("step-*")] == ["step-0000000030"]
    assert same_rows(newest_in(there), newest_in(result.directory))
    assert json.loads((there / "result.json").read_text())["steps"] == 30
    assert summary_of(f"{url}/small").state == "finished"
    assert hdfs.users == {"clicks"}


def test_a_file_url_is_the_directory_itself(criteo: dict[str, str], tmp_path: Path) -> None:
    result = train_job(job_at(f"file://{tmp_path}/runs", criteo, steps=10))
    assert result.directory == tmp_path / "runs" / "small"
    assert find_run(f"file://{tmp_path}/runs/small") == result.directory
