"""The fast forms against the papers' formulas, written as plain loops."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from clickline.models.interactions import (
    CIN,
    Bilinear,
    BilinearFusion,
    BilinearKind,
    Cross,
    HistoryAttention,
    SelfAttention,
    Squeeze,
    field_aware_pairwise,
    pairwise,
)
from clickline.models.layers import MLP, Dice
from support.model_jobs import random_inputs, small

B, S, K = 3, 5, 4


@pytest.fixture
def v() -> Tensor:
    torch.manual_seed(1)
    return torch.randn(B, S, K)


def test_pairwise_is_the_sum_of_all_dot_products(v: Tensor) -> None:
    naive = [sum(row[i] @ row[j] for i, j in itertools.combinations(range(S), 2)) for row in v]
    assert_close(pairwise(v), torch.stack(naive))


def test_the_gradient_of_pairwise_is_that_of_the_sum_of_all_dot_products(v: Tensor) -> None:
    wide = v.double().requires_grad_()
    assert torch.autograd.gradcheck(pairwise, wide)
    assert_close(pairwise(wide).detach(), pairwise(wide.detach()))


def test_field_aware_pairs_use_the_vector_meant_for_the_other_slot() -> None:
    v = torch.randn(B, S, S, K)
    naive = [sum(row[i, j] @ row[j, i] for i, j in itertools.combinations(range(S), 2)) for row in v]
    assert_close(field_aware_pairwise(v), torch.stack(naive))


def test_ffm_model_reads_its_rows_slot_by_slot() -> None:
    model = small("ffm", dense=0)
    inputs = random_inputs(model, 2)
    rows = inputs["embedding"]  # [2, 4 slots, 4 × 4]
    for b in range(2):
        expected = inputs["linear"][b].sum()
        for i, j in itertools.combinations(range(4), 2):
            expected = expected + rows[b, i, 4 * j : 4 * j + 4] @ rows[b, j, 4 * i : 4 * i + 4]
        assert_close(model(inputs)[b], expected)


def test_deepfm_is_fm_plus_the_hidden_layers() -> None:
    model, fm = small("deepfm"), small("fm")
    fm.load_state_dict({k: p for k, p in model.state_dict().items() if k.startswith("first_order")})
    inputs = random_inputs(model, 3)
    deep = model.get_submodule("mlp")(torch.cat((inputs["embedding"].flatten(1), inputs["dense"]), 1))
    assert_close(model(inputs), fm(inputs) + deep.squeeze(1))


@pytest.mark.parametrize("rank", [0, 2])
def test_cross(rank: int) -> None:
    width, layers = 6, 3
    cross = Cross(width, layers, rank=rank)
    for parameter in cross.parameters():
        torch.nn.init.normal_(parameter)
    x0 = torch.randn(B, width)
    for b in range(B):
        x = x0[b]
        for layer in cross.layers:
            if rank:
                narrow, wide = layer.children()
                matrix, bias = wide.weight @ narrow.weight, wide.bias
                assert torch.linalg.matrix_rank(matrix) == rank
            else:
                matrix, bias = layer.weight, layer.bias
            x = torch.stack([x0[b, i] * (matrix[i] @ x + bias[i]) + x[i] for i in range(width)])
        assert_close(cross(x0)[b], x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("structure", ["parallel", "stacked"])
def test_dcn_v2_structures_put_the_hidden_layers_beside_or_above(structure: str) -> None:
    model = small("dcn_v2", structure=structure)
    inputs = random_inputs(model, 2)
    x = torch.cat((inputs["embedding"].flatten(1), inputs["dense"]), 1)
    cross, mlp, out = (model.get_submodule(part) for part in ("cross", "mlp", "out"))
    expected = out(torch.cat((cross(x), mlp(x)), 1)) if structure == "parallel" else out(mlp(cross(x)))
    assert_close(model(inputs), expected.squeeze(1))


def test_cin(v: Tensor) -> None:
    cin = CIN(S, [3, 2])
    for b in range(B):
        maps, expected = v[b], []
        for weight in cin.weights:
            maps = torch.stack(
                [
                    sum(weight[i * S + j, h] * maps[i] * v[b, j] for i in range(len(maps)) for j in range(S))
                    for h in range(weight.shape[1])
                ]
            )
            expected += [m.sum() for m in maps]
        assert_close(cin(v)[b], torch.stack(expected), rtol=1e-4, atol=1e-4)


def test_self_attention_head_by_head(v: Tensor) -> None:
    heads, d = 2, 3
    layer = SelfAttention(K, heads=heads, head_dim=d)
    q, k, u, residual = layer.project.weight.chunk(4)
    for b in range(B):
        mixed = []
        for h in range(heads):
            part = slice(h * d, h * d + d)
            scores = torch.stack([torch.stack([(q[part] @ m) @ (k[part] @ n) for n in v[b]]) for m in v[b]]) / d**0.5
            mixed.append(scores.softmax(1) @ (v[b] @ u[part].T))
        assert_close(layer(v)[b], torch.relu(torch.cat(mixed, 1) + v[b] @ residual.T))


def test_squeeze_weighs_whole_slots(v: Tensor) -> None:
    layer = Squeeze(S, reduction=2)
    assert layer.down.shape == (S, 2)
    for b in range(B):
        z = torch.stack([v[b, i].mean() for i in range(S)])
        a = torch.relu(layer.up.T @ torch.relu(layer.down.T @ z))
        assert_close(layer(v)[b], torch.stack([a[i] * v[b, i] for i in range(S)]))


@pytest.mark.parametrize(("kind", "matrices"), [("all", 1), ("each", S - 1), ("interaction", S * (S - 1) // 2)])
def test_bilinear(v: Tensor, kind: BilinearKind, matrices: int) -> None:
    layer = Bilinear(S, K, kind)
    weights = layer.weight
    assert weights.shape == (matrices, K, K)
    for b in range(B):
        expected = []
        for pair, (i, j) in enumerate(itertools.combinations(range(S), 2)):
            weight = weights[{"all": 0, "each": i, "interaction": pair}[kind]]
            expected.append((v[b, i] @ weight) * v[b, j])
        assert_close(layer(v)[b], torch.cat(expected))


def test_bilinear_fusion_head_by_head() -> None:
    heads, p, q = 2, 3, 2
    layer = BilinearFusion(heads * p, heads * q, heads=heads)
    torch.nn.init.normal_(layer.x.bias)
    x, y = torch.randn(B, heads * p), torch.randn(B, heads * q)
    for b in range(B):
        expected = layer.x.bias[0] + layer.x.weight[0] @ x[b] + layer.y.weight[0] @ y[b]
        for h in range(heads):
            expected = expected + x[b, h * p : h * p + p] @ layer.weight[h] @ y[b, h * q : h * q + q]
        assert_close(layer(x, y)[b], expected)


def test_finalmlp_gates_lie_between_0_and_2_and_start_near_1() -> None:
    model = small("finalmlp")
    v = random_inputs(model, 8)["embedding"]
    seen, other = v.clone(), v.clone()
    seen[:, 0] += 1  # the first gate sees slot 0 (user), not slot 3
    other[:, 3] += 1
    gate = model.get_submodule("first_gate")
    assert (gate(v) - 1).abs().max() < 0.3
    assert not torch.equal(gate(v), gate(seen))
    assert torch.equal(gate(v), gate(other))
    constant = small("finalmlp", first_gate=[]).get_submodule("first_gate")
    assert torch.equal(constant(v), constant(seen))


def test_dice_bends_where_the_batch_has_its_mean() -> None:
    dice = Dice(2)
    torch.nn.init.constant_(dice.alpha, 0.25)
    x = torch.randn(64, 2) * 3 + 5
    p = torch.sigmoid((x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-8).sqrt())
    assert_close(dice(x), p * x + (1 - p) * 0.25 * x)
    for _ in range(200):
        dice(x)
    assert_close(dice.eval()(x), dice.train()(x), rtol=1e-3, atol=1e-3)


def attention(*, normalise: bool, activation: str = "prelu") -> HistoryAttention:
    torch.manual_seed(2)
    return HistoryAttention(K, [6, 3], activation=activation, normalise=normalise)  # type: ignore[arg-type]


@pytest.mark.parametrize("normalise", [False, True])
def test_history_attention_event_by_event(normalise: bool) -> None:
    layer = attention(normalise=normalise)
    events, candidate, length = torch.randn(B, 4, K), torch.randn(B, K), torch.tensor([1, 4, 2])
    first, second = layer.of_events
    bend_first, bend_second = layer.activations
    for b in range(B):
        scores = []
        for event in events[b, : length[b]]:
            x = first(torch.cat((event, event * candidate[b]))) + layer.of_candidate(candidate[b])
            scores.append(layer.out(bend_second(second(bend_first(x[None]))))[0, 0])
        weights = torch.stack(scores).softmax(0) if normalise else torch.stack(scores)
        expected = sum(w * event for w, event in zip(weights, events[b], strict=False))
        assert_close(layer(events, candidate, length)[b], expected)


@pytest.mark.parametrize("activation", ["prelu", "dice"])
@pytest.mark.parametrize("normalise", [False, True])
def test_padding_changes_nothing(activation: str, normalise: bool) -> None:
    layer = attention(normalise=normalise, activation=activation)
    events, candidate, length = torch.randn(B, 4, K), torch.randn(B, K), torch.tensor([1, 4, 2])
    padded = torch.cat((events, torch.full((B, 3, K), 9.0)), 1)
    padded[0, 1:] = 7.0
    assert_close(layer(padded, candidate, length), layer(events, candidate, length))


@pytest.mark.parametrize("normalise", [False, True])
def test_an_empty_history_is_no_interest_at_all(normalise: bool) -> None:
    layer = attention(normalise=normalise)
    events = torch.randn(2, 4, K, requires_grad=True)
    interest = layer(events, torch.randn(2, K), torch.tensor([0, 0]))
    assert torch.equal(interest, torch.zeros(2, K))
    interest.sum().backward()
    assert events.grad is not None and torch.isfinite(events.grad).all()


def test_din_ignores_what_lies_behind_the_length() -> None:
    model = small("din").eval()
    inputs = random_inputs(model, 5)
    for e in model.embeddings.values():
        if e.sequence_length:
            behind = torch.arange(e.sequence_length) >= inputs[e.length_name][:, None]
            noisy = inputs | {e.name: inputs[e.name] + behind.unsqueeze(2) * 100.0}
            assert_close(model(noisy), model(inputs))


@pytest.mark.parametrize("activation", ["relu", "prelu", "dice"])
def test_hidden_layers_are_as_wide_as_asked(activation: str) -> None:
    mlp = MLP(5, [4, 3], out=0, activation=activation)  # type: ignore[arg-type]
    assert mlp.width == 3 and mlp(torch.randn(2, 5)).shape == (2, 3)
    assert MLP(5, [], activation=activation)(torch.randn(2, 5)).shape == (2, 1)  # type: ignore[arg-type]


def test_mmoe_mixes_experts_by_each_labels_gate() -> None:
    model = small("mmoe", labels=2)
    inputs = random_inputs(model, 3)
    x = torch.cat((inputs["embedding"].flatten(1), inputs["dense"]), 1)
    opinions = [expert(x) for expert in model.get_submodule("experts").children()]
    gates = model.get_submodule("gates")(x)
    for label, tower in enumerate(model.get_submodule("towers").children()):
        shares = gates[:, 3 * label : 3 * label + 3].softmax(1)
        mixed = sum(shares[:, e : e + 1] * opinion for e, opinion in enumerate(opinions))
        assert_close(model(inputs)[:, label], tower(mixed).squeeze(1))
