"""Every file of PaddleRec's documentation on PaddleCloud: it is read, and becomes a job that validates."""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.compat.paddlerec.job_files import JobFile, read_job_file
from clickline.config.job import Job
from clickline.config.loading.reader import read_job
from clickline.errors import JobError
from clickline.train.preflight import check_draft
from support.paddlerec.documented import CONFIGS, FILES, SUBMISSIONS, copied


def read(directory: Path, config: str, backend: str | None = None) -> JobFile:
    beside = None if backend is None else str(copied(backend, directory))
    found = read_job_file(str(copied(config, directory)), backend=beside)
    check_draft(found.draft, look_for=())
    return found


def test_all_files_are_tested() -> None:
    tested = {*CONFIGS, *(name for pair in SUBMISSIONS for name in pair)}
    assert {file.stem for file in FILES.glob("*.yaml")} == tested


@pytest.mark.parametrize("config", CONFIGS)
def test_every_config_becomes_a_job(tmp_path: Path, config: str) -> None:
    job = read(tmp_path / "dnn", config).draft.loaded.job
    assert (job.model.name, job.model.embedding_dim, job.model.hidden) == ("dnn", 9, [512, 256, 128, 32])
    assert job.data.format == "slots"
    assert job.features.labels == ["click"]
    assert [slot.name for slot in job.features.slots] == [str(number) for number in range(1, 27)]
    assert [(dense.name, dense.size) for dense in job.features.dense] == [("dense_var", 13)]
    assert (job.train.batch_size, job.output) == (2, "increment_dnn")


@pytest.mark.parametrize(("config", "backend"), SUBMISSIONS)
def test_every_backend_gives_the_counts_of_processes(tmp_path: Path, config: str, backend: str) -> None:
    job = read(tmp_path, config, backend).draft.loaded.job
    assert job.name == "PaddleRec_CTR"
    assert job.cluster.trainers == 2
    servers, strategy = (0, "collective") if "collective" in config else (2, "async")
    assert (job.cluster.pservers, job.strategy) == (servers, strategy)


@pytest.mark.parametrize(("config", "backend"), SUBMISSIONS)
def test_every_job_is_the_same_when_it_is_read_from_its_file(tmp_path: Path, config: str, backend: str) -> None:
    found = read(tmp_path, config, backend)
    assert found.translated is not None
    file = tmp_path / "job.yaml"
    file.write_text(found.translated.text(source="config.yaml"))
    assert read_job(file).job == found.draft.loaded.job


def test_the_single_machine_job_has_the_values_of_the_file(tmp_path: Path) -> None:
    job = read(tmp_path, "single_config").draft.loaded.job
    assert (job.train.epochs, job.checkpoint.every_epochs, job.train.log_every, job.threads) == (4, 2, 10, 1)
    assert job.resolved_strategy == "single"
    (path,) = job.data.train
    assert Path(path).is_dir()


def test_keys_that_are_given_twice_and_with_dashes_are_told(tmp_path: Path) -> None:
    notices = [str(notice) for notice in read(tmp_path, "cluster_config", "complete_backend").notices]
    twice = [notice for notice in notices if "given twice; this one counts" in notice]
    assert [notice.partition(",")[0] for notice in twice] == ["submit.k8s_trainers", "submit.k8s-cpu-cores"]
    assert any("submit.k8s-cpu-cores" in notice and "read as k8s_cpu_cores" in notice for notice in notices)


def test_keys_that_are_given_twice_are_refused_in_a_job(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("train: {epochs: 1}\ntrain: {epochs: 2}\n")
    with pytest.raises(JobError, match="given twice; the first is on line 1"):
        read_job(file)


def test_no_credential_is_repeated_anywhere(tmp_path: Path) -> None:
    config, backend = copied("mpi_config", tmp_path), copied("mpi_backend", tmp_path)
    text = backend.read_text().replace('"usr,pwd"', '"user,planted-1"').replace('ak: ""', "ak: planted-2")
    backend.write_text(text.replace('sk: ""', "sk: 3333333"))
    found = read_job_file(str(config), backend=str(backend))
    assert found.translated is not None
    told = "\n".join([found.translated.text(source="config.yaml"), repr(found)])
    assert "planted" not in told
    assert "3333333" not in told
    assert sum("a credential in a file" in notice.message for notice in found.notices) == 3
    backend.write_text(text.replace('sk: ""', "sk: [planted-3]"))
    with pytest.raises(JobError, match=r"submit\.sk, line \d+: not text") as refused:
        read_job_file(str(config), backend=str(backend))
    assert "planted" not in str(refused.value)


def test_an_explained_value_has_the_line_of_the_config(tmp_path: Path) -> None:
    found = read(tmp_path, "single_config")
    line = (FILES / "single_config.yaml").read_text().splitlines().index("  epochs: 4") + 1
    assert found.draft.loaded.origins["train.epochs"] == f"file line {line}"
    assert found.draft.loaded.origins["seed"] == "default"


def test_a_job_of_our_own_is_read_as_ever(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: a\nmodel: {name: fm}\n")
    found = read_job_file(str(file))
    assert found.draft.loaded.job == Job.model_validate({"name": "a", "model": {"name": "fm"}})
    assert found.notices == []
    with pytest.raises(JobError, match=r"are for a config\.yaml of PaddleRec"):
        read_job_file(str(file), backend="backend.yaml")
