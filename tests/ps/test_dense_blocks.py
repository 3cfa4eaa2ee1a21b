"""Dense parameters on servers: any number of blocks learns what the whole would have learned."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn

from clickline.config.training import DenseOptimizer
from clickline.train.dense_optimizer import dense_optimizer
from clickline.train.flat_parameters import DenseBlock, Flat, block_of
from clickline.train.weight_average import Average
from support.processes import ENVIRONMENT


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 1))


def gradients(size: int, steps: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randn(size, generator=draw) for _ in range(steps)]


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_blocks_learn_what_the_whole_learns(name: str, parts: int) -> None:
    spec = DenseOptimizer(name=name, learning_rate=0.05, weight_decay=0.01)
    model = network()
    optimizer, average = dense_optimizer(model, spec), Average(model, keep=0.9)
    flat = Flat(network())
    size = len(flat.values)
    blocks = [
        DenseBlock(flat.values[slice(*block_of(size, part=part, parts=parts))], optimizer=spec, keep=0.9)
        for part in range(parts)
    ]
    for step, gradient in enumerate(gradients(size, 6), 1):
        for parameter, part in zip(model.parameters(), flat.named(gradient).values(), strict=True):
            parameter.grad = part.clone()
        optimizer.step()
        average.follow(step)
        for part, block in enumerate(blocks):
            block.learn(gradient[slice(*block_of(size, part=part, parts=parts))].clone())
    wanted = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
    torch.testing.assert_close(torch.cat([block.values for block in blocks]), wanted, rtol=1e-6, atol=1e-7)
    followed = torch.cat([t.reshape(-1) for t in average.tensors().values()])
    torch.testing.assert_close(torch.cat([block.average for block in blocks]), followed, rtol=1e-6, atol=1e-7)


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
from clickline.ps import entrypoints
from clickline.train.flat_parameters import DenseBlock
DenseBlock(torch.ones(3), optimizer=DenseOptimizer(), keep=0.9).learn(torch.ones(3))
loss = torch.nn.Linear(2, 1)(torch.ones(4, 2)).sum()
loss.backward()
print([name for name in ("torch._dynamo", "torch._inductor", "sympy") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=ENVIRONMENT, check=True)
    assert done.stdout.strip() == "[]"


def test_a_block_goes_on_from_what_it_saved_bit_for_bit() -> None:
    spec = DenseOptimizer()
    start = torch.randn(50, generator=torch.Generator().manual_seed(2))
    one, other = (DenseBlock(start, optimizer=spec, keep=0.99) for _ in range(2))
    steps = gradients(50, 8)
    for gradient in steps[:4]:
        one.learn(gradient.clone())
    other.restore({name: tensor.clone() for name, tensor in one.tensors().items()}, steps=one.steps)
    for gradient in steps[4:]:
        one.learn(gradient.clone())
        other.learn(gradient.clone())
    assert torch.equal(one.values, other.values)
    assert torch.equal(one.average, other.average)


def test_a_flat_model_computes_and_collects_gradients_in_its_vector() -> None:
    plain, model = network(), network()
    flat = Flat(model)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(4))
    plain(x).sum().backward()
    model(x).sum().backward()
    torch.testing.assert_close(flat.gradient, torch.cat([p.grad.reshape(-1) for p in plain.parameters()]))  # type: ignore[union-attr]
    flat.values.zero_()
    assert model(x).abs().sum() == 0
    assert torch.equal(flat.vector(flat.named(flat.gradient)), flat.gradient)


def test_blocks_cover_the_vector_once_whatever_their_number() -> None:
    for size in (0, 1, 7, 100):
        for parts in (1, 2, 3, 5, 8):
            bounds = [block_of(size, part=part, parts=parts) for part in range(parts)]
            assert bounds[0][0] == 0
            assert bounds[-1][1] == size
            assert all(a[1] == b[0] for a, b in pairwise(bounds))
