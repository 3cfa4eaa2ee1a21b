"""Which model a config.yaml means, and what its rows have, as jobs say it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from clickline.compat.paddlerec.job_files import JobFile, read_job_file
from clickline.compat.paddlerec.translation.model_names import NEAREST, ZOO
from clickline.compat.paddlerec.translation.row_shapes import ShapeError, dense_slots
from clickline.errors import JobError
from clickline.models.zoo_signatures import SIGNATURES
from clickline.train.preflight import check_draft
from support.paddlerec.documented import FILES, changed, copied
from support.paddlerec.zoo_configs import HYPER_PARAMETERS, flat_config, write_workspace

PADDLE = "# a model\nimport math\nimport paddle.fluid as fluid\n\nclass Model(object):\n    pass\n"
OURS = "from clickline import Model\n\n\nclass Mine(Model):\n    pass\n"


def flat(directory: Path, model: str, name: str = "anything", **hyper: object) -> Path:
    config = flat_config(model)
    config["hyper_parameters"] |= hyper
    workspace = directory / name
    workspace.mkdir()
    (workspace / "config.yaml").write_text(yaml.safe_dump(config))
    return workspace / "config.yaml"


def told(found: JobFile) -> str:
    return "\n".join(map(str, found.notices))


@pytest.mark.parametrize("model", HYPER_PARAMETERS)
def test_every_model_of_the_zoo_becomes_a_job_that_validates_with_its_data(tmp_path: Path, model: str) -> None:
    found = read_job_file(str(write_workspace(tmp_path, model, rows=5)))
    checked = check_draft(found.draft)
    assert checked.job.model.name == ZOO[model]
    assert checked.notices == []


def test_all_names_lead_to_models_that_are_here() -> None:
    assert set(ZOO.values()) <= set(SIGNATURES)
    assert set(NEAREST.values()) <= set(ZOO) | set(SIGNATURES)
    assert not set(ZOO) & set(NEAREST)


@pytest.mark.parametrize(("name", "nearest"), [("afm", "fm"), ("dien", "din"), ("ple", "mmoe")])
def test_a_model_that_is_not_here_is_refused_with_the_nearest(tmp_path: Path, name: str, nearest: str) -> None:
    with pytest.raises(JobError, match=f"no model '{name}' here; the nearest is {nearest}"):
        read_job_file(str(flat(tmp_path, "dnn", name)))


def test_a_packaged_name_that_is_not_here_is_refused_with_what_is(tmp_path: Path) -> None:
    file = changed("single_config", tmp_path, workspace="workspace: paddlerec.models.rank.dmn")
    with pytest.raises(
        JobError, match=r"workspace, line 1: no workspace .* did you mean paddlerec\.models\.rank\.dnn\?"
    ):
        read_job_file(str(file))


def test_the_model_may_be_named_on_the_command_line(tmp_path: Path) -> None:
    file = str(flat(tmp_path, "dnn"))
    assert (
        read_job_file(file, paddle_overrides=["hyper_parameters.model=deepfm"]).draft.loaded.job.model.name == "deepfm"
    )
    with pytest.raises(JobError, match="no model 'deepfn' here; the nearest is deepfm"):
        read_job_file(file, paddle_overrides=["hyper_parameters.model=deepfn"])


def test_hyper_parameters_that_one_model_has_name_it(tmp_path: Path) -> None:
    found = read_job_file(str(flat(tmp_path, "xdeepfm")))
    assert found.draft.loaded.job.model.name == "xdeepfm"
    assert "since only that has layer_sizes_cin" in told(found)


def test_a_model_for_paddle_is_refused_with_its_line(tmp_path: Path) -> None:
    file = changed("cluster_config", tmp_path / "mine")
    (tmp_path / "mine" / "model.py").write_text(PADDLE)
    expected = r"phase\[0\]\.model, line \d+: .*model\.py, line 3 .*cannot run; docs/migrate-from-paddlerec\.md"
    with pytest.raises(JobError, match=expected):
        read_job_file(str(file))


def test_in_the_place_of_paddlerecs_own_model_there_is_ours(tmp_path: Path) -> None:
    file = changed("cluster_config", tmp_path / "deepfm")
    (tmp_path / "deepfm" / "model.py").write_text(PADDLE)
    found = read_job_file(str(file))
    assert found.draft.loaded.job.model.name == "deepfm"
    assert "model.py, line 3 ('import paddle.fluid as fluid') cannot run here: the deepfm of the zoo" in told(found)


def test_a_model_of_ours_in_the_workspace_is_used_itself(tmp_path: Path) -> None:
    file = changed("cluster_config", tmp_path / "deepfm")
    (tmp_path / "deepfm" / "model.py").write_text(OURS)
    assert read_job_file(str(file)).draft.loaded.job.model.name == f"{tmp_path / 'deepfm' / 'model.py'}:Mine"


def test_a_reader_that_names_its_slots_is_believed(tmp_path: Path) -> None:
    file = flat(tmp_path, "dnn", "dnn")
    reader = 'import paddle\nclass R:\n    def init(self):\n        sparse_slots = "show u i"\n'
    reader += '        self.dense_slots = ["d"]\n        self.dense_slots_shape = [3]\n'
    (file.parent / "criteo_reader.py").write_text(reader)
    features = read_job_file(str(file)).draft.loaded.job.features
    assert (features.labels, [slot.name for slot in features.slots]) == (["show"], ["u", "i"])
    assert [(dense.name, dense.size) for dense in features.dense] == [("d", 3)]


def test_data_with_other_names_says_what_a_row_has(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=1)
    data = config.parent / "data" / "train" / "part-0.txt"
    data.write_text("shown:1 price:0.5 price:0.25 user:7 user:9 ad:3\nshown:0 price:1 price:2 ad:4\n")
    features = read_job_file(str(config)).draft.loaded.job.features
    assert (features.labels, [slot.name for slot in features.slots]) == (["shown"], ["user", "ad"])
    assert [(dense.name, dense.size) for dense in features.dense] == [("price", 2)]


def test_data_that_is_no_slot_text_is_refused_with_the_readers_line(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=1)
    (config.parent / "data" / "train" / "part-0.txt").write_text("0\t1\t2\n")
    (config.parent / "criteo_reader.py").write_text("import os\nfrom paddle.io import IterableDataset\n")
    with pytest.raises(JobError, match=r"not slot text .*criteo_reader\.py, line 2 .*cannot run here: write a reader"):
        read_job_file(str(config))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("dense_var:13", [("dense_var", 13)]),
        ("a:1 b:[3,4]  c", [("a", 1), ("b", 12), ("c", 1)]),
        ("a:[2, 2]", [("a", 4)]),
        ("", []),
    ],
)
def test_dense_slots_have_names_and_sizes(text: str, expected: list[tuple[str, int]]) -> None:
    assert dense_slots(text) == expected


def test_a_dense_slot_with_no_size_to_speak_of_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"'b:x' is not NAME:SIZE"):
        dense_slots("a:1 b:x")


def test_optimizers_of_tables_are_those_of_paddlerec(tmp_path: Path) -> None:
    job = read_job_file(str(flat(tmp_path, "deepfm", "deepfm", reg=0.01, optimizer="SGD"))).draft.loaded.job
    for optimizer in (job.tables.embedding.optimizer, job.tables.linear.optimizer):
        assert (optimizer.name, optimizer.learning_rate, optimizer.l2) == ("sgd", 0.001, 0.01)
    assert (job.train.optimizer.name, job.train.optimizer.weight_decay) == ("sgd", 0.01)


def test_nothing_of_ftrl_stays_in_a_linear_table(tmp_path: Path) -> None:
    optimizer = {"class": "adagrad", "learning_rate": 0.5}
    job = read_job_file(str(flat(tmp_path, "fm", "fm", optimizer=optimizer))).draft.loaded.job
    linear = job.tables.linear.optimizer
    assert (linear.name, linear.learning_rate, linear.l1, linear.l2, linear.initial) == ("adagrad", 0.5, 0, 0, 0)


def test_a_local_cluster_has_its_servers_and_trainers(tmp_path: Path) -> None:
    more = "class: local_cluster_train\n  worker_num: 3\n  server_num: 2\n  distribute_strategy: geo"
    job = read_job_file(str(changed("single_config", tmp_path, **{"class": more}))).draft.loaded.job
    assert (job.strategy, job.cluster.pservers, job.cluster.trainers) == ("geo", 2, 3)
    assert (job.cluster.agree.geo_steps, job.cluster.threads) == (100, 1)


def test_runners_of_mode_become_a_job_each_and_infer_its_test_data(tmp_path: Path) -> None:
    config: dict[str, Any] = yaml.safe_load((FILES / "single_config.yaml").read_text())
    train, infer = config["runner"][0], {"name": "test", "class": "infer", "init_model_path": "increment_dnn/0"}
    again = train | {"name": "again", "epochs": 9, "phases": ["phase1", "phase2"]}
    other = config["dataset"][0] | {"name": "other", "data_path": "{workspace}/data/sample_data/test"}
    second = config["phase"][0] | {"name": "phase2", "dataset_name": "other"}
    config |= {"runner": [train, infer | {"phases": ["phase2"]}, again], "mode": ["single_cpu_train", "test", "again"]}
    config |= {"dataset": [config["dataset"][0], other], "phase": [config["phase"][0], second]}
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump(config))
    first = read_job_file(str(file))
    assert first.others == ["again"]
    assert [Path(path).name for path in first.draft.loaded.job.data.test] == ["test"]
    job = read_job_file(str(file), runner="again").draft.loaded.job
    assert (job.name, job.train.epochs, job.checkpoint.keep) == ("again", 9, 5)
    assert [Path(path).name for path in job.data.train] == ["train", "test"]
    with pytest.raises(JobError, match="no runner 'agan' that trains in mode; did you mean again"):
        read_job_file(str(file), runner="agan")


def test_keys_of_the_job_can_be_set_on_top(tmp_path: Path) -> None:
    file = str(copied("single_config", tmp_path))
    job = read_job_file(file, overrides=["train.epochs=1"], paddle_overrides=["runner[0].epochs=3"]).draft.loaded.job
    assert job.train.epochs == 1
    assert read_job_file(file, paddle_overrides=["runner[0].epochs=3"]).draft.loaded.job.train.epochs == 3


def test_files_that_are_something_else_are_told_what_they_are(tmp_path: Path) -> None:
    backend = copied("mpi_backend", tmp_path)
    with pytest.raises(JobError, match=r"a backend\.yaml; give it by -b"):
        read_job_file(str(backend))
    oldest = tmp_path / "oldest.yaml"
    oldest.write_text("train: {trainer: {strategy: async}, epochs: 10, workspace: paddlerec.models.rank.dnn}\n")
    with pytest.raises(JobError, match=r"a config\.yaml from before PaddleRec 1\.8"):
        read_job_file(str(oldest))


def test_names_of_older_files_are_understood(tmp_path: Path) -> None:
    config = changed("single_config", tmp_path / "a", **{"class": "trainer_class: single_train"})
    found = read_job_file(str(config))
    assert found.draft.loaded.job.train.epochs == 4
    assert "runner[0].trainer_class" in told(found)
    between = tmp_path / "dnn" / "config.yaml"
    between.parent.mkdir()
    values = flat_config("dnn")
    between.write_text(yaml.safe_dump({"dygraph": values["runner"], "hyper_parameters": values["hyper_parameters"]}))
    found = read_job_file(str(between))
    assert found.draft.loaded.job.train.batch_size == 10
    assert "dygraph, line 1: read as runner" in told(found)


def test_a_workspace_is_found_from_wherever_its_file_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "models" / "rank" / "deepfm"
    file = changed("single_config", directory, workspace="workspace: models/rank/deepfm")
    job = read_job_file(str(file)).draft.loaded.job
    assert (job.model.name, job.data.train) == ("deepfm", [str(directory / "data" / "sample_data" / "train")])


def test_values_that_weigh_vectors_are_told_to_be_numbers(tmp_path: Path) -> None:
    found = read_job_file(str(write_workspace(tmp_path, "logistic_regression", rows=1)))
    assert "PaddleRec multiplies the one with the other" in told(found)


def test_slots_without_numbers_are_slots_alone(tmp_path: Path) -> None:
    file = flat(tmp_path, "dnn", "slot_dnn")
    values = yaml.safe_load(file.read_text())
    values["hyper_parameters"] = {"optimizer": "adam", "slot_num": 3, "emb_dim": 5, "layer_sizes": [4]}
    file.write_text(yaml.safe_dump(values))
    job = read_job_file(str(file)).draft.loaded.job
    assert ([slot.name for slot in job.features.slots], job.features.dense) == (["1", "2", "3"], [])
    assert (job.model.embedding_dim, job.model.hidden) == (5, [4])


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=1)
    for name in ("model.py", "criteo_reader.py", "data/train/.hidden", "data/train/a"):
        os.mkfifo(config.parent / name)
    assert read_job_file(str(config)).draft.loaded.job.model.name == "dnn"
