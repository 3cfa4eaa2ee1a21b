"""FuxiCTR's DNN and DeepFM: its feature processor, layers and training step, put together here.

    fuxi_layers.py MODEL RAW SCRATCH THREADS [MIN_COUNT]      prints {"rows", "ids", "encoding", "training", "loss"}

The two times are in seconds. The wheel of FuxiCTR brings no models. Rows stay in memory between encoding and training,
which is faster than its own loader: that goes through Parquet files and Ray. MIN_COUNT 10 is what its published Criteo
settings use; rarer values share one row, which spares its dense optimizer most of the table.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars
import torch
from fuxictr.datasets.criteo import CustomizedFeatureProcessor
from fuxictr.pytorch.layers import FactorizationMachine, FeatureEmbedding, MLP_Block
from fuxictr.pytorch.models import BaseModel

BATCH, DIM, HIDDEN = 4096, 10, [400, 400, 400]
INTEGERS, CATEGORIES = [f"I{i}" for i in range(1, 14)], [f"C{i}" for i in range(1, 27)]


class Processor(CustomizedFeatureProcessor):
    def read_data(self, data_path: str, **_: Any) -> polars.LazyFrame:
        """Its own expects a header, and an argument that polars has removed."""
        names = ["label", *INTEGERS, *CATEGORIES]
        return polars.scan_csv(
            data_path, separator="\t", has_header=False, new_columns=names, schema_overrides=self.dtype_dict
        )


def encode(raw: str, scratch: str, *, min_count: int) -> tuple[Any, dict[str, torch.Tensor]]:
    """Feature map and columns as in FuxiCTR's own Criteo benchmark: integers bucketed, everything a category."""
    integers = {"name": INTEGERS, "dtype": "float", "fill_na": 0, "preprocess": "convert_to_bucket"}
    categories = {"name": CATEGORIES, "dtype": "str", "fill_na": ""}
    processor = Processor(
        feature_cols=[{**columns, "active": True, "type": "categorical"} for columns in (integers, categories)],
        label_col={"name": "label", "dtype": "float"},
        dataset_id="criteo",
        data_root=scratch,
    )
    frame = processor.preprocess(processor.read_data(raw))
    processor.fit(frame, min_categr_count=min_count)
    encoded = processor.transform({name: column.to_numpy() for name, column in frame.collect().to_dict().items()})
    processor.feature_map.default_emb_dim = DIM
    return processor.feature_map, {name: torch.from_numpy(np.asarray(column)) for name, column in encoded.items()}


class Network(BaseModel):
    def __init__(self, feature_map: Any, *, factorised: bool, scratch: str) -> None:
        super().__init__(feature_map, gpu=-1, verbose=0, model_root=scratch, metrics=["AUC"])
        self.embedding = FeatureEmbedding(feature_map, DIM)
        self.factorised = FactorizationMachine(feature_map) if factorised else None
        self.deep = MLP_Block(feature_map.sum_emb_out_dim(), HIDDEN, output_dim=1)
        self.compile("adam", "binary_crossentropy", 1e-3)
        self.reset_parameters()
        self._max_gradient_norm = 10.0

    def forward(self, inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        columns = self.get_inputs(inputs)
        rows = self.embedding(columns)
        logits = self.deep(rows.flatten(1))
        if self.factorised is not None:
            logits = logits + self.factorised(columns, rows)
        return {"y_pred": self.output_activation(logits)}


def batches(columns: dict[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """Shuffled; one matrix picked apart by column, as its own loader for matrices does."""
    names = list(columns)
    matrix = torch.stack([columns[name].to(torch.int64) for name in names], 1)
    for chosen in torch.randperm(len(matrix)).split(BATCH):
        picked = matrix[chosen]
        yield {name: picked[:, place] for place, name in enumerate(names)}


def main(model: str, raw: str, scratch: str, threads: str, min_count: str = "10") -> None:
    torch.set_num_threads(int(threads))
    shutil.rmtree(scratch, ignore_errors=True)
    started = time.perf_counter()
    feature_map, columns = encode(raw, scratch, min_count=int(min_count))
    encoding = time.perf_counter() - started
    network = Network(feature_map, factorised=model == "deepfm", scratch=scratch)
    network.train()
    started = time.perf_counter()
    loss = math.fsum(network.train_step(batch).item() for batch in batches(columns))
    training = time.perf_counter() - started
    shutil.rmtree(scratch, ignore_errors=True)
    rows = len(columns["label"])
    facts = {"rows": rows, "ids": feature_map.total_features, "encoding": encoding, "training": training}
    print(json.dumps({**facts, "loss": loss / math.ceil(rows / BATCH)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
