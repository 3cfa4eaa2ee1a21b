"""Keys that PaddleRec's files had in some year: each file becomes a job that validates with its data."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from clickline.compat.paddlerec.job_files import JobFile, read_job_file
from clickline.errors import JobError
from clickline.train.preflight import check_draft
from support.paddlerec.zoo_configs import flat_config, write_workspace

LEFT_OUT = "left out"
FLAT: dict[str, tuple[str, dict[str, Any], dict[str, Any], str]] = {
    "rows in GPUs": ("dnn", {"sync_mode": "gpubox", "use_gpu": True}, {}, "not carried: gpubox keeps rows in GPUs"),
    "rows in GPUs of a box": ("wide_deep", {"sync_mode": "paddlebox"}, {}, "paddlebox keeps rows in GPUs"),
    "a static model": ("dnn", {"model_path": "static_model.py", "use_gpu": 0}, {}, "names the model"),
    "fields are dumped": (
        "dnn",
        {"need_dump": True, "dump_fields": ["C2"], "dump_fields_path": "d", "parse_ins_id": True, "fs_name": "afs://x"},
        {},
        "clickline evaluate --out",
    ),
    "days, without epochs": (
        "dnn",
        {"epochs": LEFT_OUT, "days": "{20190101..20190103}", "pass_per_day": 24, "train_data_dir": ["data/train/"]},
        {},
        "online learning is a run for each day",
    ),
    "an interval of days": (
        "slot_dnn",
        {"epochs": LEFT_OUT, "start_day": "20190101", "end_day": "20190103", "shuffle_thread_num": 12},
        {"slot_num": 26, "emb_dim": 9, "layer_sizes": [8], "sparse_inputs_slots": LEFT_OUT, "fc_sizes": LEFT_OUT},
        "online learning is a run for each day",
    ),
    "adam in its lazy mode": ("dnn", {}, {"optimizer": {"class": "Adam", "adam_lazy_mode": True}}, ""),
    "another word for numbers": ("dnn", {}, {"dense_input_dim": LEFT_OUT, "dense_feature_dim": 13}, ""),
    "results of epochs": ("fm", {"runner_result_dump_path": "results"}, {}, ""),
}
ATTENTION = {"n_head": 3, "d_key": 8, "d_value": 8, "d_model": 24, "n_interacting_layers": 2, "sparse_feature_dim": 8}


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (values | changes).items() if value != LEFT_OUT}


def checked(file: Path) -> JobFile:
    found = read_job_file(str(file))
    check_draft(found.draft)
    return found


def told(found: JobFile) -> str:
    return "\n".join(map(str, found.notices))


@pytest.mark.parametrize("case", FLAT)
def test_a_file_of_the_flat_generation_is_read(tmp_path: Path, case: str) -> None:
    model, runner, hyper, expected = FLAT[case]
    base = "dnn" if model == "slot_dnn" else model
    config = write_workspace(tmp_path, base, rows=3)
    config = (config.parent.rename(config.parent.with_name(model)) / config.name) if model != base else config
    values: dict[str, Any] = dict(flat_config(base))
    values["runner"] = changed(values["runner"], runner)
    values["hyper_parameters"] = changed(values["hyper_parameters"], hyper)
    config.write_text(yaml.safe_dump(values))
    assert expected in told(checked(config))


def test_the_first_flat_files_had_another_word_for_the_batch(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=3)
    values: dict[str, Any] = dict(flat_config("dnn"))
    runner = values.pop("runner")
    values["dygraph"] = runner | {"batch_size": runner.pop("train_batch_size")}
    config.write_text(yaml.safe_dump(values | {"loader": {"num_workers": 2}}))
    found = checked(config)
    assert (found.draft.loaded.job.train.batch_size, found.draft.loaded.job.data.threads) == (10, 2)
    assert "read as train_batch_size" in told(found)


def first(model: str, dataset: dict[str, Any], hyper: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A file of PaddleRec 1.8, with a workspace on somebody's machine."""
    return {
        "workspace": f"/home/somebody/PaddleRec/models/rank/{model}",
        "mode": "train_runner",
        "dataset": [{"name": "rows", "type": "QueueDataset", "data_path": "{workspace}/data/train"} | dataset],
        "hyper_parameters": {"optimizer": {"class": "SGD", "learning_rate": 0.0001}} | hyper,
        "runner": [{"name": "train_runner", "class": "single_train", "device": "cpu"} | more],
        "phase": [{"name": "phase1", "model": "{workspace}/model.py", "dataset_name": "rows"}],
    }


def test_attention_goes_by_its_older_names(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "logistic_regression", rows=3)
    config = config.parent.rename(tmp_path / "AutoInt") / config.name
    slots = {"sparse_slots": "label feat_idx", "dense_slots": "feat_value:39"}
    config.write_text(yaml.safe_dump(first("AutoInt", slots, ATTENTION | {"num_field": 39, "dropout_rate": 0})))
    job = checked(config).draft.loaded.job
    assert job.model.name == "autoint"
    assert job.model.params == {"heads": 3, "head_dim": 8, "attention_layers": 2}


def test_fibinet_has_its_parameters(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=3)
    config = config.parent.rename(tmp_path / "fibinet") / config.name
    slots = {"sparse_slots": " ".join(["click", *map(str, range(1, 27))]), "dense_slots": "dense_feature:13"}
    hyper = {"bilinear_type": "all", "reduction_ratio": 2, "dropout_rate": 0.5, "sparse_feature_dim": 4}
    config.write_text(yaml.safe_dump(first("fibinet", slots, hyper)))
    job = checked(config).draft.loaded.job
    assert (job.model.name, job.model.dropout) == ("fibinet", 0.5)
    assert job.model.params == {"bilinear": "all", "reduction": 2}


def test_rows_of_numbers_alone_get_a_slot(tmp_path: Path) -> None:
    draw, directory = random.Random(1), tmp_path / "wide_deep"
    (directory / "data" / "train").mkdir(parents=True)
    wide, deep = [f"wide_input:{draw.randrange(9)}.0" for _ in range(8)], [f"deep_input:{n}.0" for n in range(58)]
    (directory / "data" / "train" / "part").write_text(" ".join([*wide, *deep, "label:1"]) + "\n")
    slots = {"sparse_slots": "label", "dense_slots": "wide_input:8 deep_input:58"}
    hyper = {"hidden1_units": 75, "hidden2_units": 50, "hidden3_units": 25}
    (directory / "config.yaml").write_text(yaml.safe_dump(first("wide_deep", slots, hyper)))
    found = checked(directory / "config.yaml")
    features = found.draft.loaded.job.features
    assert [(slot.name, slot.column) for slot in features.slots] == [("slot_wide_input", "wide_input")]
    assert [(dense.name, dense.size) for dense in features.dense] == [("wide_input", 8), ("deep_input", 58)]
    assert found.draft.loaded.job.model.hidden == [75, 50, 25]
    assert "a model has at least one slot here" in told(found)


def test_data_on_hdfs_is_told_how_to_be_named_and_its_credential_is_not_repeated(tmp_path: Path) -> None:
    dataset = {"type": "InMemoryDataset", "hdfs_addr": "afs://x:1", "hdfs_ugi": "me,planted", "hadoop_home": "~/h"}
    slots = {"sparse_slots": "click 1", "data_path": "/user/me/data"}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(first("dnn", dataset | slots, {})))
    found = read_job_file(str(tmp_path / "config.yaml"))
    assert "name files by URL, their options in data.storage" in told(found)
    assert "planted" not in told(found) + repr(found)
    assert found.draft.loaded.job.data.shuffle_rows > 0


def test_what_is_not_here_is_refused_with_the_nearest_and_the_line_that_is_paddles(tmp_path: Path) -> None:
    config = write_workspace(tmp_path, "dnn", rows=1)
    config = config.parent.rename(tmp_path / "youtube_dnn") / config.name
    (config.parent / "net.py").write_text("import math\nimport paddle.nn as nn\n")
    with pytest.raises(
        JobError, match=r"no model 'youtube_dnn' here; the nearest is dnn.*net\.py, line 2 .*for Paddle"
    ):
        read_job_file(str(config))
