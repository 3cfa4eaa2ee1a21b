"""Each rule against a plain one: torch's own where torch has it, else a few lines of numpy in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from clickline._native import Table

Array = np.ndarray[Any, np.dtype[Any]]
KEYS = np.array([3, 2**64 - 1, 17, 2**63, 0], np.uint64)


def steps(dim: int, count: int = 25) -> Iterator[tuple[Array, Array]]:
    """Which rows are touched, and their gradients."""
    random = np.random.default_rng(dim)
    for _ in range(count):
        touched = np.flatnonzero(random.random(len(KEYS)) < 0.7)
        yield touched, random.normal(0, 2, (len(touched), dim)).astype(np.float32)


@pytest.mark.parametrize("dim", [1, 3, 8, 10, 16, 33])
def test_adam_is_torchs_sparse_adam(dim: int, push: Any, pull: Any) -> None:
    table = Table(dim=dim, optimizer="adam", learning_rate=0.03, beta1=0.8, beta2=0.95, epsilon=1e-6, init_scale=0.5)
    weight = torch.nn.Parameter(torch.from_numpy(pull(table, KEYS)).clone())
    peer = torch.optim.SparseAdam([weight], lr=0.03, betas=(0.8, 0.95), eps=1e-6)
    for touched, grads in steps(dim):
        push(table, KEYS[touched], grads)
        weight.grad = torch.sparse_coo_tensor(
            torch.from_numpy(touched)[None], torch.from_numpy(grads), weight.shape, check_invariants=True
        )
        peer.step()  # type: ignore[no-untyped-call]
    np.testing.assert_allclose(table.rows(KEYS), weight.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_adamw_is_torchs_adamw_where_all_rows_are_touched(push: Any, pull: Any) -> None:
    table = Table(dim=10, optimizer="adamw", learning_rate=0.03, weight_decay=0.1, epsilon=1e-12, init_scale=0.5)
    weight = torch.nn.Parameter(torch.from_numpy(pull(table, KEYS)).clone())
    peer = torch.optim.AdamW([weight], lr=0.03, weight_decay=0.1, eps=1e-12)
    random = np.random.default_rng(1)
    for _ in range(25):
        grads = random.normal(0, 1, (len(KEYS), 10)).astype(np.float32)
        push(table, KEYS, grads)
        weight.grad = torch.from_numpy(grads)
        peer.step()
    np.testing.assert_allclose(table.rows(KEYS), weight.detach().numpy(), rtol=2e-5, atol=2e-6)


def sgd(w: Array, s: Array, g: Array) -> None:
    w -= 0.05 * g


def adagrad(w: Array, s: Array, g: Array) -> None:
    s += g**2
    w -= 0.05 * g / (np.sqrt(s) + 1e-3)


def ftrl(w: Array, s: Array, g: Array) -> None:
    z, n = np.split(s, 2, axis=1)
    sigma = (np.sqrt(n + g**2) - np.sqrt(n)) / 0.05
    z += g - sigma * w
    n += g**2
    w[:] = np.where(np.abs(z) <= 0.7, 0, -(z - np.sign(z) * 0.7) / ((0.4 + np.sqrt(n)) / 0.05 + 0.2))
    s[:] = np.concatenate([z, n], axis=1)


@pytest.mark.parametrize("dim", [1, 10, 16])
@pytest.mark.parametrize(("rule", "states"), [(sgd, 0), (adagrad, 1), (ftrl, 2)])
def test_rules_follow_their_formula(
    rule: Callable[[Array, Array, Array], None], states: int, dim: int, push: Any, pull: Any
) -> None:
    name = rule.__name__
    l1, l2 = (0.7, 0.2) if rule is ftrl else (0.0, 0.0)
    table = Table(dim=dim, optimizer=name, learning_rate=0.05, epsilon=1e-3, initial=0.4, init_scale=0.5, l1=l1, l2=l2)
    weights = pull(table, KEYS).astype(np.float64)
    state = np.full((len(KEYS), states * dim), 0.4 if name == "adagrad" else 0.0)
    seen = np.zeros(len(KEYS), bool)
    for touched, grads in steps(dim):
        push(table, KEYS[touched], grads)
        w, s = weights[touched], state[touched]
        rule(w, s, grads.astype(np.float64))
        weights[touched], state[touched], seen[touched] = w, s, True
    assert seen.all()
    np.testing.assert_allclose(table.rows(KEYS), weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(table.states(KEYS), state, rtol=1e-4, atol=1e-5)
    assert table.states(KEYS).shape == (len(KEYS), states * dim)


def test_ftrl_makes_exact_zeros(push: Any) -> None:
    table = Table(dim=4, optimizer="ftrl", learning_rate=0.1, l1=5.0, init_scale=0.3)
    push(table, KEYS, 0.01)
    assert (table.rows(KEYS) == 0).all()


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw"])
def test_penalties_are_added_to_the_gradient(name: str, push: Any, pull: Any) -> None:
    plain = Table(dim=10, optimizer=name, init_scale=0.5)
    penalised = Table(dim=10, optimizer=name, init_scale=0.5, l1=0.25, l2=0.5)
    start = pull(plain, KEYS)
    grads = np.random.default_rng(2).normal(0, 1, start.shape).astype(np.float32)
    push(plain, KEYS, grads + np.float32(0.5) * start + np.float32(0.25) * np.sign(start))
    push(penalised, KEYS, grads)
    np.testing.assert_allclose(penalised.rows(KEYS), plain.rows(KEYS), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "ftrl"])
def test_clip_scales_a_rows_gradient_to_its_norm(name: str, push: Any, pull: Any) -> None:
    plain, clipped = (Table(dim=10, optimizer=name, init_scale=0.5, clip=clip) for clip in (0.0, 2.0))
    grads = np.random.default_rng(3).normal(0, 1, (len(KEYS), 10)).astype(np.float32)
    grads *= np.array([[0.01], [0.1], [1], [10], [100]], np.float32)
    norms = np.linalg.norm(grads, axis=1, keepdims=True)
    push(clipped, KEYS, grads)
    push(plain, KEYS, grads * np.minimum(1, 2 / norms))
    np.testing.assert_allclose(clipped.rows(KEYS), plain.rows(KEYS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "adagrad", "adam", "adamw", "ftrl"])
def test_scale_multiplies_the_learning_rate(name: str, push: Any) -> None:
    scaled, slower = (Table(dim=5, optimizer=name, learning_rate=rate, weight_decay=0.1) for rate in (0.4, 0.1))
    for _ in range(3):
        push(scaled, KEYS, 0.5, scale=0.25)
        push(slower, KEYS, 0.5)
    np.testing.assert_allclose(scaled.rows(KEYS), slower.rows(KEYS), rtol=1e-6)


def test_step_counts_pushes(push: Any) -> None:
    table = Table(dim=2, optimizer="adam")
    push(table, KEYS)
    push(table, KEYS[:0])
    assert table.step == 2


def test_unknown_rule_lists_the_known() -> None:
    with pytest.raises(ValueError, match="unknown sparse optimizer 'adma'; known: sgd, adagrad, adam, adamw, ftrl"):
        Table(dim=2, optimizer="adma")
