"""Every model of the zoo as ONNX gives the model's own probabilities, for any number of rows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from clickline.data.schema import Schema
from clickline.errors import ModelError, VersionError
from clickline.models.base import Model
from clickline.publish.onnx_export import export
from clickline.train.learner import Learner
from clickline.train.weight_average import Average
from clickline.versions.network import Network
from clickline.versions.network_parameters import parameters
from support.model_jobs import EVERY_MODEL, random_inputs, small

CLICKS = Schema(format="csv", labels=("label",), slots=(), dense=())


def exported(model: Model, *, keep: float = 0.0, schema: Schema = CLICKS) -> bytes:
    return export(cast(Learner, SimpleNamespace(model=model, average=Average(model, keep=keep), schema=schema)))


def fed(inputs: dict[str, torch.Tensor]) -> dict[str, np.ndarray[Any, Any]]:
    return {name: tensor.numpy() for name, tensor in inputs.items()}


@pytest.mark.heavy
@pytest.mark.parametrize("name", EVERY_MODEL)
def test_gives_the_probabilities_of_the_model(name: str) -> None:
    labels = 2 if name == "mmoe" else 1
    model = small(name, labels=labels, dropout=0.5)
    for parameter in model.parameters():  # first-order weights start at 0
        torch.nn.init.normal_(parameter, std=0.2)
    model.train()
    network = Network(exported(model))
    assert model.training  # as it was
    model.eval()
    for rows in (1, 7, 64):
        inputs = random_inputs(model, rows)
        with torch.no_grad():
            wanted = torch.sigmoid(model(inputs)).reshape(rows, labels).numpy()
        np.testing.assert_allclose(network.run(fed(inputs)), wanted, rtol=0, atol=1e-6)


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "means"), [("deepfm", (40.0,)), ("mmoe", (40.0, -3.0))])
def test_gives_values_on_the_labels_means_with_a_squared_loss(name: str, means: tuple[float, ...]) -> None:
    model = small(name, labels=len(means)).eval()
    labels = tuple(f"label{i}" for i in range(len(means)))
    network = Network(exported(model, schema=replace(CLICKS, labels=labels, loss="squared", label_means=means)))
    for rows in (1, 7):
        inputs = random_inputs(model, rows)
        with torch.no_grad():
            wanted = model(inputs).reshape(rows, -1).numpy() + np.array(means, np.float32)
        np.testing.assert_allclose(network.run(fed(inputs)), wanted, rtol=0, atol=1e-5)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["lr", "deepfm"])
def test_works_without_dense_numbers(name: str) -> None:
    model = small(name, dense=0).eval()
    network = Network(exported(model))
    assert "dense" not in network.inputs
    inputs = random_inputs(model, 3)
    with torch.no_grad():
        wanted = torch.sigmoid(model(inputs)).numpy()[:, None]
    np.testing.assert_allclose(network.run(fed(inputs)), wanted, rtol=0, atol=1e-6)


@pytest.mark.heavy
def test_uses_the_average_that_evaluation_uses_and_leaves_the_weights_alone() -> None:
    model = small("dnn").eval()
    average = Average(model, keep=0.5)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1)
    inputs = random_inputs(model, 5)
    network = Network(export(cast(Learner, SimpleNamespace(model=model, average=average, schema=CLICKS))))
    assert all(torch.equal(parameter, before[name] + 1) for name, parameter in model.named_parameters())
    with torch.no_grad(), average.in_place():
        wanted = torch.sigmoid(model(inputs)).numpy()[:, None]
    np.testing.assert_allclose(network.run(fed(inputs)), wanted, rtol=0, atol=1e-6)


@pytest.mark.heavy
def test_the_same_model_gives_the_same_bytes_and_no_path_is_in_them() -> None:
    one, other = exported(small("deepfm")), exported(small("deepfm"))
    assert one == other
    assert b"site-packages" not in one
    assert str(Path(__file__).parents[2]).encode() not in one
    assert b"torch" not in one


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(exported(small("dnn")))


def test_unknown_names_are_answered_with_the_known_ones(network: Network) -> None:
    inputs = fed(random_inputs(small("dnn"), 2))
    with pytest.raises(VersionError, match=r"no input 'embeding'; did you mean.*it has: dense, embedding"):
        network.run({"embeding": inputs["embedding"]})
    with pytest.raises(VersionError, match=r"input 'embedding' is not fed; the network needs: dense, embedding"):
        network.run({"dense": inputs["dense"]})
    with pytest.raises(VersionError, match=r"no output 'logit';.* it has: probability"):
        network.run(inputs, fetch="logit")


def test_inputs_of_another_shape_are_refused(network: Network) -> None:
    inputs = fed(random_inputs(small("dnn"), 2))
    with pytest.raises(VersionError, match="does not run on what it is fed"):
        network.run(inputs | {"dense": np.zeros((2, 99), np.float32)})


@pytest.mark.parametrize("content", [b"", b"not a network", b"\x08\x07\x12\xff"])
def test_what_is_no_network_is_refused(content: bytes) -> None:
    with pytest.raises(VersionError, match="here: not a network that can be run"):
        Network(content, name="here")
    with pytest.raises(VersionError, match=r"not an ONNX file|no graph"):
        parameters(content or b"\xff")


class Branching(Model):
    """What a model must not do."""

    def __init__(self, fields: Any) -> None:
        super().__init__(fields)
        self.embed("embedding", dim=2)

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        total = inputs["embedding"].sum((1, 2))
        return total if total.sum() > 0 else -total


def test_a_model_that_branches_on_values_is_refused_with_a_word_why() -> None:
    with pytest.raises(ModelError, match=r"(?s)Branching cannot be exported as ONNX.*must not branch on the values"):
        exported(Branching(small("dnn").fields))
