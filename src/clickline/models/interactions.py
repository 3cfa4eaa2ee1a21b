"""Ways to let features interact, one class or function each, with the formula and where it comes from.

v is always [batch, slots, dim]: a vector for every slot.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from clickline.models.layers import TensorModule, activate, linear
from clickline.models.parameter_types import Activation, BilinearKind, Widths


def pairwise(v: Tensor) -> Tensor:
    """Σ_{i<j} v_i·v_j (Rendle 2010), in time linear in the slots: half of |Σ v|² - Σ |v|². Gives [B]."""
    # Predictions and export need no gradient: they take the plain formula, without a custom autograd function.
    return _Pairwise.apply(v) if v.requires_grad else _pairwise(v, v.sum(1))  # type: ignore[no-untyped-call]


def _pairwise(v: Tensor, total: Tensor) -> Tensor:
    return (total.square() - v.square().sum(1)).sum(1) / 2


class _Pairwise(torch.autograd.Function):
    """With its gradient, Σ v - v_i, in two passes over v; what autograd makes of the formula takes five."""

    @staticmethod
    def forward(ctx: Any, v: Tensor) -> Tensor:
        total = v.sum(1)
        ctx.save_for_backward(v, total)
        return _pairwise(v, total)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        v, total = ctx.saved_tensors
        # One new tensor of the shape of v, scaled in place: v itself is still needed and stays as it is.
        found: Tensor = total.unsqueeze(1) - v
        return found.mul_(gradient[:, None, None])


def field_aware_pairwise(v: Tensor) -> Tensor:
    """Σ_{i<j} v_{i,j}·v_{j,i} (Juan et al. 2016); v: [B, slots, slots, k], slot i's vector for slot j. Gives [B]."""
    # The sum over all i and j has each pair twice, and each slot with itself once.
    both = (v * v.transpose(1, 2)).sum((1, 2, 3))
    own = v.diagonal(dim1=1, dim2=2).square().sum((1, 2))
    return (both - own) / 2


class Cross(TensorModule):
    """x ← x0 ⊙ (W x + b) + x, layer after layer (Wang et al. 2020); with `rank` r > 0, W = U Vᵀ of that rank."""

    def __init__(self, width: int, layers: int, *, rank: int = 0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(self._weight(width, rank) for _ in range(layers))

    @staticmethod
    def _weight(width: int, rank: int) -> nn.Module:
        out = linear(rank or width, width, gain="linear")
        if not rank:
            return out
        narrow = nn.Linear(width, rank, bias=False)
        nn.init.xavier_normal_(narrow.weight)
        return nn.Sequential(narrow, out)

    def forward(self, x0: Tensor) -> Tensor:
        x = x0
        for layer in self.layers:
            x = torch.addcmul(x, x0, layer(x))
        return x


class CIN(TensorModule):
    """Compressed interaction network (Lian et al. 2018): X^k_h = Σ_ij W^k_hij (X^{k-1}_i ⊙ X^0_j), each of the maps
    X^k_h summed over the dimension. No activation: the authors found the identity best. Gives [B, Σ layers]."""

    def __init__(self, slots: int, layers: Widths) -> None:
        super().__init__()
        self.width = sum(layers)
        self.weights = nn.ParameterList()
        before = slots
        for maps in layers:
            weight = torch.empty(before * slots, maps)
            self.weights.append(nn.Parameter(nn.init.xavier_normal_(weight)))
            before = maps

    def forward(self, v: Tensor) -> Tensor:
        dim = v.shape[2]
        x0 = v.transpose(1, 2).flatten(0, 1)  # [B × dim, slots]: one matmul serves all dimensions
        x, sums = x0, []
        for weight in self.weights:
            # [B × dim, before, 1] @ [B × dim, 1, slots], flattened to match `weight`: [before × slots, maps].
            x = (x.unsqueeze(2) @ x0.unsqueeze(1)).flatten(
                1
            ) @ weight  # outer product as matmul: faster than as product
            sums.append(x.reshape(-1, dim, weight.shape[1]).sum(1))
        return torch.cat(sums, 1)


class SelfAttention(TensorModule):
    """Slots attend to slots, several heads, a linear residual, then ReLU (Song et al. 2019). Gives [B, slots, out].

    Scores are divided by √head_dim as in the authors' code; the paper's formula leaves that out.
    """

    def __init__(self, dim: int, *, heads: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.width = heads, heads * head_dim
        self.project = nn.Linear(dim, 4 * self.width, bias=False)  # query, key, value, residual
        nn.init.normal_(self.project.weight, std=(2 / (dim + self.width)) ** 0.5)  # Glorot's, for each of the four

    def forward(self, v: Tensor) -> Tensor:
        query, key, value, residual = self.project(v).chunk(4, 2)
        q, k, u = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in (query, key, value))
        mixed = nn.functional.scaled_dot_product_attention(q, k, u)
        return torch.relu(mixed.transpose(1, 2).flatten(2) + residual)


class Squeeze(TensorModule):
    """Slots weighed by a = relu(W2 relu(W1 z)), z their means (SENET in Huang et al. 2019). Gives v's shape."""

    def __init__(self, slots: int, *, reduction: int) -> None:
        super().__init__()
        narrow = max(1, slots // reduction)
        self.down = nn.Parameter(nn.init.xavier_normal_(torch.empty(slots, narrow)))
        # Positive at first: a slot whose weights are all negative would give 0 for ever, since relu passes no gradient.
        self.up = nn.Parameter(nn.init.xavier_normal_(torch.empty(narrow, slots)).abs())

    def forward(self, v: Tensor) -> Tensor:
        a = torch.relu(torch.relu(v.mean(2) @ self.down) @ self.up)
        return v * a.unsqueeze(2)


class Bilinear(TensorModule):
    """p_ij = (v_i W) ⊙ v_j for i < j (Huang et al. 2019); W is one for `all`, for `each` slot i, or for each pair
    (`interaction`). Gives [B, pairs × dim]."""

    def __init__(self, slots: int, dim: int, kind: BilinearKind) -> None:
        super().__init__()
        self.slots, self.kind = slots, kind
        pairs = slots * (slots - 1) // 2
        # The last slot is never the first of a pair, so `each` has no matrix for it.
        matrices = {"all": 1, "each": slots - 1, "interaction": pairs}[kind]
        self.weight = nn.Parameter(torch.randn(matrices, dim, dim) * dim**-0.5)
        self.width = pairs * dim

    def forward(self, v: Tensor) -> Tensor:
        # Slot by slot, all its partners in one matmul: seven times as fast as one small matmul for every pair.
        dim = v.shape[2]
        firsts = v.unbind(1)[:-1]
        crosses = []
        for i, (first, matrix) in enumerate(zip(firsts, self._matrices(dim), strict=True)):
            turned = (first @ matrix).reshape(-1, matrix.shape[1] // dim, dim)  # one for each partner, or for all
            crosses.append((turned * v[:, i + 1 :]).flatten(1))
        return torch.cat(crosses, 1)

    def _matrices(self, dim: int) -> Sequence[Tensor]:
        """For each first slot its matrix: [dim, dim], or those of all its partners side by side."""
        if self.kind == "all":
            return [self.weight[0]] * (self.slots - 1)
        if self.kind == "each":
            return self.weight.unbind()
        # Pairs lie in the order (0, 1), (0, 2), …, (1, 2), …: slot i is the first of slots - 1 - i pairs.
        partners = range(self.slots - 1, 0, -1)
        return torch.split_with_sizes(self.weight.transpose(0, 1).flatten(1), [n * dim for n in partners], 1)


class BilinearFusion(TensorModule):
    """b + w1·x + w2·y + Σ_h x_hᵀ W_h y_h, x and y cut into heads (Mao et al. 2023). Gives [B]."""

    def __init__(self, x_width: int, y_width: int, *, heads: int) -> None:
        super().__init__()
        self.x = linear(x_width, 1, gain="linear")
        self.y = nn.Linear(y_width, 1, bias=False)
        nn.init.xavier_normal_(self.y.weight)
        x_head, y_head = x_width // heads, y_width // heads
        self.shape = (heads, x_head)
        # Glorot variance of one head: xavier_normal_ would count the number of heads into its fans.
        self.weight = nn.Parameter(torch.randn(heads, x_head, y_head) * (2 / (x_head + y_head)) ** 0.5)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        turned = torch.einsum("bhx,hxy->bhy", x.reshape(-1, *self.shape), self.weight).flatten(1)
        first: Tensor = self.x(x) + self.y(y)
        return first.squeeze(1) + (turned * y).sum(1)


class HistoryAttention(TensorModule):
    """Events of a history, weighed by a small network of (event, candidate, event ⊙ candidate) and summed (Zhou et al.
    2018). events: [B, T, width], candidate: [B, width], length: [B]. Gives [B, width].

    The authors' code also feeds event - candidate, which the first linear layer makes by itself. Weights are used as
    they are, so that a long history weighs more than a short one, or with `normalise` as shares that sum to 1.
    """

    def __init__(self, width: int, hidden: Widths, *, activation: Activation, normalise: bool) -> None:
        super().__init__()
        sizes = [2 * width, *hidden]
        self.of_events = nn.ModuleList(linear(a, b, gain="relu") for a, b in itertools.pairwise(sizes))
        self.activations = nn.ModuleList(activate(activation, size) for size in hidden)
        self.of_candidate = nn.Linear(width, sizes[1], bias=False)  # once a row, not once an event
        self.out = linear(sizes[-1], 1, gain="linear")
        self.weighted = activation == "dice"
        self.normalise = normalise

    def forward(self, events: Tensor, candidate: Tensor, length: Tensor) -> Tensor:
        steps = events.shape[1]
        real = torch.arange(steps, device=events.device) < length.unsqueeze(1)  # [B, T]
        counts = (real.flatten().to(events.dtype),) if self.weighted else ()  # padding must not enter Dice's mean
        x = torch.cat((events, events * candidate.unsqueeze(1)), 2)
        # The first layer is linear, so its share of the candidate is computed once a row and added to all events of it.
        for i, (layer, activation) in enumerate(zip(self.of_events, self.activations, strict=True)):
            x = layer(x)
            if i == 0:
                x = x + self.of_candidate(candidate).unsqueeze(1)
            # PReLU and Dice have one parameter for each index of dimension 1, so events become rows for them.
            x = activation(x.flatten(0, 1), *counts).unflatten(0, (-1, steps))
        score: Tensor = self.out(x).squeeze(2)
        if self.normalise:
            # Not -inf: the softmax of an empty history would be NaN. Its shares are finite so, and `real` makes them 0.
            score = score.masked_fill(~real, torch.finfo(score.dtype).min).softmax(1)
        return ((score * real).unsqueeze(1) @ events).squeeze(1)
