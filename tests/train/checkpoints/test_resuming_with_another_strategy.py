"""A checkpoint of one strategy goes on with another: every row is trained once, or the run is refused with a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clickline.config import Job
from clickline.data.schema import Schema
from clickline.ps.server.server import ParameterServer
from clickline.ps.trainer.built_model import BuiltModel
from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_tensors, load
from clickline.train.learner import Learner
from clickline.train.monitoring.piece_progress import PieceProgress, progress_in
from support.clusters import Run, settings_for, shows_of

pytestmark = pytest.mark.heavy
ROWS, COLUMNS = 4500, 39
CLUSTERS = {
    "single": {"pservers": 0, "trainers": 1},
    "collective": {"pservers": 0, "trainers": 2},
    "async": {"pservers": 2, "trainers": 2},
    "sync": {"pservers": 1, "trainers": 2},
}


def settings_of(strategy: str, data: dict[str, str], directory: Path, name: str, **train: int) -> dict[str, Any]:
    train = {"batch_size": 50, "epochs": 1, **train}
    changes = {"strategy": strategy, "cluster": CLUSTERS[strategy], "train": train, "checkpoint": {"every_steps": 0}}
    return settings_for(data, directory, name, data={"test": []}, **changes)


def trained(settings: dict[str, Any], *arguments: str, code: int = 0) -> Run:
    run = Run(settings, *arguments)
    try:
        run.ends(code)
        return run
    finally:
        run.close()


@pytest.fixture(scope="module")
def halfway(criteo: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Checkpoint]:
    """By strategy, a checkpoint in the middle of the first epoch."""
    directory, found = tmp_path_factory.mktemp("halfway"), {}
    for strategy in ("single", "collective", "async"):
        stopped = settings_of(strategy, criteo, directory, strategy, max_steps=20)
        found[strategy] = trained(stopped).checkpoints()[-1]
        assert 0 < found[strategy].manifest["standing"]["rows"] < ROWS
    return found


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("async", "single"),
        ("async", "collective"),
        ("async", "sync"),
        ("collective", "single"),
        ("collective", "async"),
    ],
)
def test_the_rest_of_an_epoch_is_trained_once(
    before: str, after: str, halfway: dict[str, Checkpoint], criteo: dict[str, str], tmp_path: Path
) -> None:
    run = trained(settings_of(after, criteo, tmp_path, "on"), "--resume-from", str(halfway[before].path))
    result = run.result()
    assert result["rows"] - result.get("repeated_rows", 0) == ROWS
    assert shows_of(run.checkpoints()[-1])["embedding"] == result["rows"] * COLUMNS


@pytest.mark.parametrize("after", ["collective", "async"])
def test_one_process_cannot_hand_over_in_the_middle_of_an_epoch(
    after: str, halfway: dict[str, Checkpoint], criteo: dict[str, str], tmp_path: Path
) -> None:
    refused = trained(
        settings_of(after, criteo, tmp_path, "on"),
        *("--resume-from", str(halfway["single"].path)),
        code=6,
    )
    assert "stands in the middle of an epoch of one process" in refused.err
    assert "--set strategy=single" in refused.err
    assert "--warm-start" in refused.err


@pytest.mark.parametrize(("before", "after"), [("single", "async"), ("single", "collective"), ("async", "single")])
def test_between_epochs_any_strategy_goes_on(before: str, after: str, criteo: dict[str, str], tmp_path: Path) -> None:
    first = trained(settings_of(before, criteo, tmp_path, "one"))
    whole = first.checkpoints()[-1]
    assert progress_in(whole) is None
    run = trained(settings_of(after, criteo, tmp_path, "two", epochs=2), "--resume-from", str(whole.path))
    result = run.result()
    assert result["rows"] - result.get("repeated_rows", 0) == 2 * ROWS
    assert result["steps"] > whole.step
    ended = run.checkpoints()[-1].manifest["standing"]
    assert (ended["epoch"], ended["rows"]) == (2, result["rows"])


def test_dense_state_of_servers_is_that_of_one_process(halfway: dict[str, Checkpoint]) -> None:
    """Parameters, their average and the optimizer's moments, not those of a start."""
    job, schema = opened(halfway["async"])
    learner = Learner(job=job, schema=schema, threads=1)
    learner.restore(load(halfway["async"], tables=learner.sparse.tables), step=halfway["async"].step)
    check_same_dense(dense_tensors(halfway["async"]), learner.tensors())


def test_dense_state_of_one_process_is_that_of_servers(halfway: dict[str, Checkpoint], tmp_path: Path) -> None:
    job, schema = opened(halfway["single"])
    server = ParameterServer(job=job, part=0, parts=1, address=f"unix:{tmp_path}/ps", token=b"a secret of the test")
    try:
        server.set_up(schema)
        model = BuiltModel(job).initial(schema)
        server.fetch_model = lambda: model
        assert server.load(str(halfway["single"].path), generation=1)
        block = server.block
        assert block is not None
        assert block.steps == halfway["single"].step
        found: dict[str, torch.Tensor] = {}
        for key, vector in block.arrays().items():
            kind = {"value": "model.{}", "average": "average.{}"}.get(key, "optimizer.{}." + key[6:])
            named = model.named(vector) if vector.ndim else dict.fromkeys(model.shapes, vector)
            found |= {kind.format(name): torch.from_numpy(array) for name, array in named.items()}
        check_same_dense(dense_tensors(halfway["single"]), found)
    finally:
        server.close()


def opened(checkpoint: Checkpoint) -> tuple[Job, Schema]:
    return Job.model_validate(checkpoint.manifest["job"]), Schema.from_dict(checkpoint.manifest["schema"])


def check_same_dense(wanted: dict[str, torch.Tensor], found: dict[str, torch.Tensor]) -> None:
    for kind in ("model.", "average.", "optimizer."):
        names = [name for name in wanted if name.startswith(kind) and name in found]
        assert names, kind
        for name in names:
            assert wanted[name].equal(found[name]), name


def test_progress_of_leases_is_progress_of_pieces_and_back() -> None:
    progress = PieceProgress(piece_bytes=9, trainers=3, pieces=6, finished={0, 2}, begun={1: 40, 5: 7})
    assert PieceProgress.from_book(progress.to_book(attempts=3), piece_bytes=9, trainers=3) == progress
