"""A run's epochs written as PaddlePaddle v1's pass directories: what is read back is what the checkpoint has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.compat.cube.sequence_files import read_all
from clickline.compat.paddle_v1.parameter_files import V1Writer, last_v1_pass, read_keys, read_v1_pass
from clickline.compat.paddle_v1.pass_directories import write_passes
from clickline.config import Job
from clickline.errors import CheckpointError, DataError
from clickline.publish.checkpoint_source import open_checkpoint_source
from clickline.train.session import train_job
from support.made_once import made_once
from support.processes import small_settings

runner = CliRunner()


@pytest.fixture(scope="module")
def trained(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two epochs of 45 steps, with checkpoints at their ends and at each 30th step."""

    def train(directory: Path) -> None:
        settings = small_settings(criteo, directory)
        settings["checkpoint"] = {"every_steps": 30, "keep": 10}
        settings["train"] = {"batch_size": 100, "log_every": 45, "epochs": 2}
        train_job(Job.model_validate(settings))

    return made_once(tmp_path_factory, "pass-directories", train) / "runs" / "small"


def test_each_epoch_is_a_pass_with_the_values_of_its_checkpoint(trained: Path, tmp_path: Path) -> None:
    result = runner.invoke(app, ["rows", "to-v1", str(trained), "--out", str(tmp_path / "output"), "--json"])
    assert json.loads(result.stdout)["passes"] == ["pass-00000", "pass-00001"]
    last = last_v1_pass(tmp_path / "output")
    assert last.name == "pass-00001"
    source = open_checkpoint_source(trained / "checkpoints" / "step-0000000090", threads=1)
    parameters = read_v1_pass(last)
    tables = source.learner.sparse.tables
    with source.learner.average.in_place():
        dense = {name: tensor.numpy().copy() for name, tensor in source.learner.model.state_dict().items()}
    assert parameters.keys() == dense.keys() | {f"{name}.w0" for name in tables}
    for name, values in dense.items():
        assert parameters[name].tobytes() == values.tobytes()
    for name, table in tables.items():
        # Back under the keys of the table, as a cube takes it.
        back = tmp_path / f"{name}.sequence"
        arguments = ["rows", "from-v1", str(last / f"{name}.w0"), "--dim", str(table.dim), "--out", str(back)]
        assert runner.invoke(app, [*arguments, "--keys", str(last / "keys" / f"{name}.npy")]).exit_code == 0
        keys, _, values = read_all(back)
        assert sorted(keys) == sorted(table.keys())
        assert values.tobytes() == table.rows(keys).tobytes()


def test_what_is_there_is_kept_and_what_another_run_has_left_is_replaced(trained: Path, tmp_path: Path) -> None:
    assert [place.name for place in write_passes(trained, tmp_path)] == ["pass-00000", "pass-00001"]
    assert write_passes(trained, tmp_path) == []
    (tmp_path / "pass-00000" / "done").write_text("clickline 0.0.1\nstep-0000000007 another\n")
    (tmp_path / "pass-00000" / "left").write_text("of another run")
    assert [place.name for place in write_passes(trained, tmp_path)] == ["pass-00000"]
    assert not (tmp_path / "pass-00000" / "left").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pass-00000", "pass-00001"]


def test_passes_that_a_longer_run_before_has_left_are_dropped_when_asked(trained: Path, tmp_path: Path) -> None:
    write_passes(trained, tmp_path)
    for name, done in (("pass-00002", "clickline 0.1.0\nstep-0000000135 x\n"), ("pass-00003", "0"), ("pass-new", "")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "done").write_text(done)
    arguments = ["rows", "to-v1", str(trained), "--out", str(tmp_path)]
    assert runner.invoke(app, arguments).stdout.startswith("no new passes in ")
    assert (tmp_path / "pass-00002").exists()
    assert runner.invoke(app, [*arguments, "--drop-later"]).exit_code == 0
    # One of v1 itself stays, whatever its number.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pass-00000", "pass-00001", "pass-00003", "pass-new"]


def test_one_checkpoint_is_written_alone_and_within_an_epoch_it_is_refused(trained: Path, tmp_path: Path) -> None:
    checkpoints = trained / "checkpoints"
    assert write_passes(checkpoints / "step-0000000090", tmp_path) == [tmp_path / "pass-00001"]
    with pytest.raises(CheckpointError, match="written within epoch 2, but a pass is a whole epoch"):
        write_passes(checkpoints / "step-0000000060", tmp_path)


def test_a_damaged_checkpoint_leaves_no_pass(trained: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(trained, tmp_path / "run")
    with (copy / "checkpoints" / "step-0000000045" / "dense.safetensors").open("r+b") as file:
        file.write(b"\xff\xff")
    with pytest.raises(CheckpointError, match=r"dense\.safetensors"):
        write_passes(copy, tmp_path / "output")
    assert not (tmp_path / "output").exists()


def test_a_file_with_too_few_numbers_and_keys_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lacks 1 of its numbers"), V1Writer(tmp_path / "short", 3) as file:
        file.append(np.zeros(2, np.float32))
    np.save(tmp_path / "floats.npy", np.zeros(3))
    (tmp_path / "text").write_text("7\n")
    for name in ("floats.npy", "text", "none"):
        with pytest.raises(DataError, match=name):
            read_keys(tmp_path / name)
