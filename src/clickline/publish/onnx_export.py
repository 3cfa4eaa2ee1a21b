"""The dense network of a model as ONNX: what goes in by name, probabilities out, or values with a squared loss.

The network is the model's own `forward`, traced once with the weights that evaluation uses (their average, if the job
keeps one), so nothing is written twice. Rows are not part of it: whoever runs it looks them up, pools them as the
schema says, and feeds them under the names that the model declared (versions/network.py runs it, without PyTorch).
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import onnx
import torch
from torch import Tensor, nn

from clickline.data.embeddings import Embedding
from clickline.data.schema import Schema
from clickline.errors import ModelError
from clickline.models.base import Model
from clickline.train.forward import means_of, with_means
from clickline.train.learner import Learner
from clickline.versions.network import OUTPUT
from clickline.versions.network_parameters import parse_network

OPSET = 18
BATCH = "batch"
"""How the first dimension of everything is called in the graph and in the manifest."""


class _Exported(nn.Module):
    """A model whose inputs come one by one, and whose output is always [rows, labels] probabilities, or values."""

    def __init__(self, model: Model, names: list[str], schema: Schema) -> None:
        super().__init__()
        self.model = model
        self.names = names
        self.loss, self.means = schema.loss, means_of(schema)

    def forward(self, *values: Tensor) -> Tensor:
        logits = with_means(self.model(dict(zip(self.names, values, strict=True))), self.means)
        shaped = logits.unsqueeze(1) if logits.dim() == 1 else logits
        return shaped if self.loss == "squared" else torch.sigmoid(shaped)


def export(learner: Learner) -> bytes:
    """The network of a learner as an ONNX file. The same learner gives the same bytes."""
    training = learner.model.training
    learner.model.eval()
    try:
        with learner.average.in_place():
            return _exported(learner.model, learner.schema)
    finally:
        learner.model.train(training)


def inputs_of(model: Model, schema: Schema) -> dict[str, dict[str, Any]]:
    """What a network is fed, for the manifest: shape, type, and where each number comes from."""
    pooling = {slot.name: slot.pooling for slot in schema.slots}
    inputs: dict[str, dict[str, Any]] = {}
    for name, example in model.example_inputs(1).items():
        inputs[name] = {"dtype": str(example.dtype).removeprefix("torch."), "shape": [BATCH, *example.shape[1:]]}
    if "dense" in inputs:
        inputs["dense"]["features"] = list(schema.dense_names)
    for embedding in model.embeddings.values():
        inputs[embedding.name] |= _source_of(embedding, pooling)
    return inputs


def outputs_of(schema: Schema) -> dict[str, dict[str, Any]]:
    """What comes out, for the manifest."""
    labels = list(schema.labels)
    output = {"dtype": "float32", "shape": [BATCH, len(labels)], "labels": labels}
    # The output keeps its name, by which clients fetch it, whatever it holds.
    return {OUTPUT: {**output, "loss": schema.loss} if schema.loss != "log" else output}


def _source_of(embedding: Embedding, pooling: Mapping[str, str]) -> dict[str, Any]:
    source: dict[str, Any] = {"table": embedding.table, "slots": list(embedding.slots)}
    if embedding.sequence_length:
        return {**source, "sequence_length": embedding.sequence_length}
    return {**source, "pooling": [pooling[slot] for slot in embedding.slots]}


def _exported(model: Model, schema: Schema) -> bytes:
    # Two rows: torch.export takes dimensions of size 0 and 1 for constants, so one row would fix the batch size.
    example = model.example_inputs(2)
    names = list(example)
    # The exporter names values inside after layers, so an input called `linear` would be there twice.
    feeds = {f"clickline.feed.{place}": name for place, name in enumerate(names)}
    # One shape object for all inputs: they have the same number of rows, and the exporter is told so.
    batch = torch.export.Dim(BATCH, min=1)
    with _quiet():
        try:
            program = torch.onnx.export(
                _Exported(model, names, schema),
                tuple(example.values()),
                input_names=list(feeds),
                output_names=[OUTPUT],
                opset_version=OPSET,
                dynamic_shapes=(tuple({0: batch} for _ in names),),
                dynamo=True,
                optimize=True,
                verbose=False,
            )
        except Exception as error:  # whatever a model of the user's own makes the exporter say
            raise ModelError(
                f"{type(model).__name__} cannot be exported as ONNX: {error}; its forward must not branch on the "
                "values of its inputs"
            ) from error
    assert program is not None  # noqa: S101  (with dynamo=True there is always one)
    proto = program.model_proto
    _strip(proto)
    # In one pass, so that neither renaming meets the result of the other: inner values that have an input's name move
    # away, and the feeds get the declared names.
    _rename(proto.graph, {**{name: f"inside.{name}" for name in names}, **feeds})
    content: bytes = proto.SerializeToString(deterministic=True)
    # The bytes are parsed again: what is checked is what readers will load, stripped and renamed.
    onnx.checker.check_model(parse_network(content), full_check=True)
    return content


def _strip(proto: Any) -> None:
    """Remove what depends on the machine: paths of source files, stack traces, versions of tools."""
    proto.doc_string = proto.producer_name = proto.producer_version = proto.graph.doc_string = ""
    del proto.metadata_props[:]
    graph = proto.graph
    del graph.metadata_props[:]
    for one in (*graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer, *proto.functions):
        one.doc_string = ""
        del one.metadata_props[:]
    for function in proto.functions:
        for node in function.node:
            node.doc_string = ""
            del node.metadata_props[:]


def _rename(graph: Any, names: Mapping[str, str]) -> None:
    """Give values other names, wherever they are made or used."""
    for one in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
        one.name = names.get(one.name, one.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                _rename(inner, names)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the exporter, which warns about its own internals."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
