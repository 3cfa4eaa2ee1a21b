"""config.yaml of the flat generation for each model that is here, with made up data in the shape that it reads."""

from __future__ import annotations

import random
from pathlib import Path

import yaml

from clickline.compat.paddlerec.workspace_samples import sample_rows

_CRITEO = {
    "sparse_inputs_slots": 27,
    "sparse_feature_number": 1_000_001,
    "sparse_feature_dim": 9,
    "dense_input_dim": 13,
}
_DEEP = _CRITEO | {"fc_sizes": [32, 16], "distributed_embedding": 0}
HYPER_PARAMETERS: dict[str, dict[str, object]] = {
    "dnn": _DEEP,
    "deepfm": _DEEP,
    "dcn": _DEEP
    | {"cross_num": 2, "l2_reg_cross": 5e-5, "dnn_use_bn": False, "clip_by_norm": 100.0, "is_sparse": False},
    "dcn_v2": _DEEP
    | {
        "is_Stacked": True,
        "use_low_rank_mixture": True,
        "low_rank": 8,
        "num_experts": 4,
        "cross_num": 2,
        "l2_reg_cross": 3e-5,
        "dnn_use_bn": False,
        "clip_by_norm": 10.0,
    },
    "xdeepfm": _DEEP | {"layer_sizes_dnn": [16, 16], "layer_sizes_cin": [8, 8]},
    "fm": _CRITEO,
    "ffm": _CRITEO,
    "wide_deep": _DEEP,
    "logistic_regression": {"sparse_feature_number": 1_086_460, "num_field": 39, "reg": 0.001},
    "autoint": {
        "feature_number": 1_000_001,
        "embedding_dim": 16,
        "fc_sizes": [],
        "use_residual": True,
        "scaling": True,
        "use_wide": True,
        "use_sparse": True,
        "head_num": 2,
        "num_field": 39,
        "attn_layer_sizes": [8, 8],
        "distributed_embedding": 0,
    },
    "din": {
        "use_DataLoader": True,
        "item_emb_size": 8,
        "cat_emb_size": 8,
        "is_sparse": False,
        "item_count": 63_001,
        "cat_count": 801,
        "act": "sigmoid",
    },
    "mmoe": {"feature_size": 10, "expert_num": 3, "gate_num": 2, "expert_size": 8, "tower_size": 4},
}


def write_workspace(directory: Path, model: str, *, rows: int = 60) -> Path:
    """A directory named after the model, as PaddleRec has it, with config.yaml and data; gives back config.yaml."""
    workspace = directory / model
    for part, seed in (("train", 1), ("test", 2)):
        folder = workspace / "data" / part
        folder.mkdir(parents=True)
        (folder / "part-0.txt").write_text("".join(f"{line}\n" for line in lines(model, rows, seed=seed)))
    config = workspace / "config.yaml"
    config.write_text(yaml.safe_dump(flat_config(model)))
    return config


def flat_config(model: str) -> dict[str, dict[str, object]]:
    """config.yaml as the last versions of PaddleRec have it."""
    optimizer: dict[str, object] = {"class": "Adam", "learning_rate": 0.001, "strategy": "async"}
    if model == "din":
        optimizer = {"class": "SGD", "learning_rate_base_lr": 0.85, "strategy": "async"}
    runner: dict[str, object] = {
        "train_data_dir": "data/train",
        "train_reader_path": "criteo_reader",
        "use_gpu": False,
        "use_auc": True,
        "train_batch_size": 10,
        "epochs": 2,
        "print_interval": 2,
        "model_save_path": f"output_model_{model}",
        "test_data_dir": "data/test",
        "infer_reader_path": "criteo_reader",
        "infer_batch_size": 5,
        "infer_load_path": f"output_model_{model}",
        "infer_start_epoch": 0,
        "infer_end_epoch": 2,
        "use_inference": False,
        "save_inference_feed_varnames": ["C1", "C2", "dense_input"],
        "save_inference_fetch_varnames": ["sigmoid_0.tmp_0"],
        "use_fleet": False,
        "num_workers": 0,
        "sync_mode": "async",
        "thread_num": 1,
        "reader_type": "QueueDataset",
        "pipe_command": "python queuedataset_reader.py",
        "dataset_debug": False,
        "split_file_list": False,
    }
    return {"runner": runner, "hyper_parameters": {"optimizer": optimizer} | HYPER_PARAMETERS[model]}


def lines(model: str, rows: int, *, seed: int) -> list[str]:
    """Rows in the text that PaddleRec's reader of the model takes apart."""
    draw = random.Random(seed)
    if model == "din":
        return [_visits(draw) for _ in range(rows)]
    if model == "mmoe":
        return [",".join([draw.choice("01"), draw.choice("01"), *_numbers(draw, 10)]) for _ in range(rows)]
    if model == "autoint":
        fields = [str(draw.randrange(1, 1000)) for _ in range(39)]
        return [" ".join([draw.choice("01"), *fields, *_numbers(draw, 39)]) for _ in range(rows)]
    if model == "logistic_regression":
        return [_indexed(draw) for _ in range(rows)]
    return list(sample_rows(rows, seed=seed))


def _numbers(draw: random.Random, count: int) -> list[str]:
    return [f"{draw.random():.3f}" for _ in range(count)]


def _visits(draw: random.Random) -> str:
    items = [str(draw.randrange(1, 50)) for _ in range(draw.randrange(1, 6))]
    cats = [str(int(item) % 7) for item in items]
    item = draw.randrange(1, 50)
    return f"{' '.join(items)};{' '.join(cats)};{item};{item % 7};{float(draw.random() < 0.5)}"


def _indexed(draw: random.Random) -> str:
    tokens = [f"label:{draw.choice('01')}", *(f"feat_idx:{draw.randrange(1, 500)}" for _ in range(39))]
    return " ".join([*tokens, *(f"feat_value:{number}" for number in _numbers(draw, 39))])
