"""What holds for every model of the zoo, whatever it computes inside."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from clickline.models import Model
from support.model_jobs import EVERY_MODEL, random_inputs, small, with_gradients

DEEP = [name for name in EVERY_MODEL if name not in ("lr", "fm", "ffm")]


@pytest.mark.parametrize("name", EVERY_MODEL)
@pytest.mark.parametrize("dense", [0, 3])
@pytest.mark.parametrize("rows", [1, 6])
def test_gives_one_finite_logit_a_row(name: str, dense: int, rows: int) -> None:
    model = small(name, dense=dense)
    logits = model(random_inputs(model, rows))
    assert logits.shape == (rows,)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_takes_a_dense_input_of_width_zero(name: str) -> None:
    model = small(name, dense=0)
    inputs = random_inputs(model, 4)
    assert torch.equal(model(inputs), model(inputs | {"dense": torch.zeros(4, 0)}))


@pytest.mark.parametrize("name", EVERY_MODEL)
@pytest.mark.parametrize("dense", [0, 3])
def test_gradient_reaches_every_parameter_and_every_slot(name: str, dense: int) -> None:
    model = small(name, dense=dense)
    inputs = with_gradients(random_inputs(model, 64))
    labels = (torch.arange(64) % 3 == 0).float()
    binary_cross_entropy_with_logits(model(inputs), labels).backward()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None and tensor.grad.abs().sum() > 0, parameter
    for e in model.embeddings.values():
        gradient = inputs[e.name].grad
        assert gradient is not None and (gradient.abs().sum((0, 2)) > 0).all(), e.name


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_dense_numbers_count(name: str) -> None:
    model = small(name)
    for parameter in model.parameters():  # first-order weights start at 0
        nn.init.normal_(parameter, std=0.3)
    inputs = random_inputs(model, 8)
    other = inputs | {"dense": inputs["dense"] + 1}
    assert (model(inputs) != model(other)).all()


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_rows_do_not_see_each_other(name: str) -> None:
    model = small(name).eval()
    inputs = random_inputs(model, 6)
    whole = model(inputs)
    for row in range(6):
        alone = model({k: v[row : row + 1] for k, v in inputs.items()})
        torch.testing.assert_close(alone[0], whole[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_same_seed_same_model_and_inputs_stay_as_they_are(name: str) -> None:
    first, second = small(name), small(name)
    inputs = random_inputs(first, 5)
    before = {k: v.clone() for k, v in inputs.items()}
    assert torch.equal(first(inputs), second(inputs))
    assert all(torch.equal(inputs[k], before[k]) for k in inputs)


@pytest.mark.parametrize("name", DEEP)
def test_dropout_only_while_training(name: str) -> None:
    model = small(name, dropout=0.5)
    inputs = random_inputs(model, 16)
    assert not torch.equal(model(inputs), model(inputs))
    model.eval()
    assert torch.equal(model(inputs), model(inputs))


class Rows(nn.Module):
    """Stands in for the sparse tables: a few rows for every slot, shared where the model shares them."""

    def __init__(self, model: Model, values: int) -> None:
        super().__init__()
        torch.manual_seed(11)
        self.model, self.values = model, values
        origins = {slot: model.fields.origin_of(slot) or slot for slot in model.fields.slots}
        self.start = {slot: model.fields.slots.index(origins[slot]) * values for slot in model.fields.slots}
        size = len(model.fields.slots) * values
        self.tables = nn.ParameterDict(
            {t.name: nn.Parameter(torch.randn(size, t.dim) * 0.05) for t in model.tables.values()}
        )

    def forward(self, values: dict[str, Tensor]) -> dict[str, Tensor]:
        inputs: dict[str, Tensor] = {}
        for e in self.model.embeddings.values():
            keys = [values[slot] + self.start[slot] for slot in e.slots]
            inputs[e.name] = self.tables[e.table][keys[0] if e.sequence_length else torch.stack(keys, 1)]
            if e.sequence_length:
                inputs[e.length_name] = torch.full((len(keys[0]),), e.sequence_length, dtype=torch.int32)
        return inputs


@pytest.mark.parametrize("name", EVERY_MODEL)
def test_learns_a_separable_problem(name: str) -> None:
    generator = torch.Generator().manual_seed(5)
    model = small(name)
    rows, values = 128, 4
    drawn = {
        slot: torch.randint(values, (rows, 5) if pooling == "sequence" else (rows,), generator=generator)
        for slot, pooling in zip(model.fields.slots, model.fields.pooling, strict=True)
    }
    labels = ((drawn["user"] >= 2) | (drawn["item"] == 0)).float()
    dense = torch.randn(rows, 3, generator=generator)
    tables = Rows(model, values)
    optimizer = torch.optim.Adam(tables.parameters(), lr=0.03)  # the model is a part of `tables`
    losses = []
    for _ in range(60):
        loss = binary_cross_entropy_with_logits(model(tables(drawn) | {"dense": dense}), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 3


def test_mmoe_gives_a_logit_for_every_label() -> None:
    model = small("mmoe", labels=3)
    inputs = with_gradients(random_inputs(model, 16))
    logits = model(inputs)
    assert logits.shape == (16, 3)
    logits[:, 1].sum().backward()
    moved = {name for name, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert {name.split(".")[1] for name in moved if name.startswith("towers")} == {"1"}
    assert {name.split(".")[1] for name in moved if name.startswith("experts")} == {"0", "1", "2"}


@pytest.mark.parametrize("rows", [1, 16])
def test_din_with_dice_trains_on_batches_of_any_size(rows: int) -> None:
    model = small("din", activation="dice", normalise=True)
    inputs = with_gradients(random_inputs(model, rows))
    model(inputs).sum().backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in model.parameters())
    before = model(inputs)
    assert not torch.equal(model.eval()(inputs), before)  # batch means while training, running ones afterwards


@pytest.mark.heavy
@pytest.mark.parametrize("name", EVERY_MODEL)
def test_can_be_exported_for_any_batch_size(name: str) -> None:
    model = small(name).eval()
    inputs = random_inputs(model, 4)
    batch = torch.export.Dim("batch", min=1, max=1 << 20)
    program = torch.export.export(model, (inputs,), dynamic_shapes=({k: {0: batch} for k in inputs},))
    more = random_inputs(model, 9, seed=4)
    torch.testing.assert_close(program.module()(more), model(more), rtol=1e-4, atol=1e-5)
