"""Dense parameters on servers: any number of blocks learns what the whole would have learned."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from clickline.config.training import DenseOptimizer
from clickline.ps.block_bounds import block_of
from clickline.ps.server.dense_block import DenseBlock
from clickline.ps.trainer.flat_parameters import Flat
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.weight_average import Average
from support.processes import ENVIRONMENT


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1))


def gradients(size: int, steps: int) -> list[np.ndarray]:
    """Of sizes as they occur, from the first steps to the last."""
    draw = np.random.default_rng(1)
    return [(draw.standard_normal(size) * 10.0 ** draw.uniform(-5, 1)).astype(np.float32) for _ in range(steps)]


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
def test_any_number_of_blocks_learns_the_same_bits(name: str, decay: float) -> None:
    spec = DenseOptimizer(name=name, learning_rate=0.05, weight_decay=decay)
    start, steps = np.random.default_rng(3).standard_normal(1003).astype(np.float32), gradients(1003, 40)
    outcomes = set()
    for parts in (1, 2, 3, 5):
        bounds = [slice(*block_of(len(start), part=part, parts=parts)) for part in range(parts)]
        blocks = [DenseBlock(start[part], optimizer=spec, keep=0.9) for part in bounds]
        for gradient in steps:
            for part, block in zip(bounds, blocks, strict=True):
                block.learn(gradient[part])
        vectors = [{name: array for name, array in block.arrays().items() if array.ndim} for block in blocks]
        outcomes.add(tuple(np.concatenate([part[key] for part in vectors]).tobytes() for key in vectors[0]))
    assert len(outcomes) == 1


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
def test_a_block_learns_what_pytorch_learns(name: str, decay: float) -> None:
    """Within rounding: which multiply-adds PyTorch fuses is up to its compiler, and differs at the end of a vector."""
    spec = DenseOptimizer(name=name, learning_rate=0.05, weight_decay=decay)
    start = np.random.default_rng(3).standard_normal(1003).astype(np.float32)
    model = nn.ParameterDict({"vector": nn.Parameter(torch.from_numpy(start.copy()))})
    optimizer, average = dense_optimizer(model, spec), Average(model, keep=0.9)
    block = DenseBlock(start, optimizer=spec, keep=0.9)
    for step, gradient in enumerate(gradients(len(start), 40), 1):
        model["vector"].grad = torch.from_numpy(gradient.copy())
        optimizer.step()
        average.follow(step)
        block.learn(gradient)
    wanted = {"value": model["vector"].detach(), "average": average.tensors()["vector"]}
    wanted |= {f"state.{key}": tensor for key, tensor in optimizer.state.get(model["vector"], {}).items()}
    found = block.arrays()
    assert found.keys() == wanted.keys()
    for key, tensor in wanted.items():
        assert found[key].dtype == tensor.numpy().dtype
        assert found[key].shape == tuple(tensor.shape)
        np.testing.assert_allclose(found[key], tensor.numpy(), rtol=1e-6, atol=1e-7, err_msg=key)


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sgd", torch.optim.SGD),
        ("adagrad", torch.optim.Adagrad),
        ("adam", torch.optim.Adam),
        ("adamw", torch.optim.AdamW),
    ],
)
def test_optimizers_are_those_of_pytorch_bit_for_bit(
    name: str, kind: type[torch.optim.Optimizer], decay: float
) -> None:
    model, theirs = network(), network()
    ours = dense_optimizer(model, DenseOptimizer(name=name, learning_rate=0.05, weight_decay=decay))
    peer = kind(theirs.parameters(), lr=0.05, weight_decay=decay, fused=True)  # type: ignore[call-arg]
    for seed in range(5):
        x = torch.randn(6, 5, generator=torch.Generator().manual_seed(seed))
        ours.forget_gradients()
        peer.zero_grad()
        for one in (model, theirs):
            one(x).square().sum().backward()
        ours.step()
        peer.step()
    for mine, other in zip(model.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(mine, other)
        held, known = ours.state.get(mine, {}), peer.state.get(other, {})
        assert held.keys() == {key for key, value in known.items() if value is not None}
        assert all(torch.equal(held[key], known[key]) and held[key].dtype == known[key].dtype for key in held)


def test_a_parameter_without_a_gradient_stays() -> None:
    model = network()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = dense_optimizer(model, DenseOptimizer())
    first = next(model.parameters())
    first.grad = torch.ones_like(first)
    optimizer.step()
    assert [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)] == [True, *[False] * 3]
    assert list(optimizer.state) == [first]


def test_learning_does_not_load_the_compiler() -> None:
    """It would take each process of a run as long to start as PyTorch itself does."""
    program = """
import sys, torch
from clickline.config.training import DenseOptimizer
from clickline.ps.trainer import trainer
from clickline.train.dense_optimizer import dense_optimizer
model = torch.nn.Linear(2, 1)
model(torch.ones(4, 2)).sum().backward()
dense_optimizer(model, DenseOptimizer()).step()
print([name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout.strip() == "[]"


def test_a_block_goes_on_from_what_it_saved_bit_for_bit() -> None:
    spec = DenseOptimizer()
    start = np.random.default_rng(2).standard_normal(50).astype(np.float32)
    one, other = (DenseBlock(start, optimizer=spec, keep=0.99) for _ in range(2))
    steps = gradients(50, 8)
    for gradient in steps[:4]:
        one.learn(gradient)
    other.restore({name: array.copy() for name, array in one.arrays().items()}, steps=one.steps)
    for gradient in steps[4:]:
        one.learn(gradient)
        other.learn(gradient)
    assert {name: array.tobytes() for name, array in one.arrays().items()} == {
        name: array.tobytes() for name, array in other.arrays().items()
    }


def test_a_flat_model_computes_and_collects_gradients_in_its_vector() -> None:
    plain, model = network(), network()
    flat = Flat(model)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(4))
    plain(x).sum().backward()
    model(x).sum().backward()
    torch.testing.assert_close(flat.gradient, torch.cat([p.grad.reshape(-1) for p in plain.parameters()]))  # type: ignore[union-attr]
    flat.values.zero_()
    assert model(x).abs().sum() == 0


def test_blocks_cover_the_vector_once_whatever_their_number() -> None:
    for size in (0, 1, 7, 100):
        for parts in (1, 2, 3, 5, 8):
            bounds = [block_of(size, part=part, parts=parts) for part in range(parts)]
            assert bounds[0][0] == 0
            assert bounds[-1][1] == size
            assert all(a[1] == b[0] for a, b in pairwise(bounds))
