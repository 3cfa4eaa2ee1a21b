"""What a model may declare, and what it is told when it may not."""

from __future__ import annotations

import pytest
import torch

from clickline.errors import ModelError
from clickline.models import Embedding, Fields, Model

FIELDS = Fields(("user", "item", "seen"), ("sum", "mean", "sequence"), dense=2, keys_of=("", "", "item"))


def test_a_declaration_takes_all_slots_that_are_no_sequences() -> None:
    model = Model(FIELDS)
    declared = model.embed("embedding", dim=4)
    assert declared == Embedding("embedding", 4, ("user", "item"), "embedding", 0, "embedding")
    assert declared.width == 8
    assert model.embeddings == {"embedding": declared}
    assert model.unused_slots == ("seen",)


def test_a_history_shares_the_rows_of_its_items() -> None:
    model = Model(FIELDS)
    model.embed("items", dim=4, slots=["item"])
    history = model.embed("history", dim=4, slots=["seen"], sequence_length=7, table="items")
    assert history.table == "items" and history.width == 28
    assert list(model.tables) == ["items"]
    assert FIELDS.origin_of("seen") == "item" and FIELDS.origin_of("user") == ""


def test_example_inputs_have_the_declared_shapes() -> None:
    model = Model(FIELDS)
    model.embed("linear", dim=1, kind="linear")
    model.embed("history", dim=4, slots=["seen"], sequence_length=7)
    shapes = {name: tuple(tensor.shape) for name, tensor in model.example_inputs(3).items()}
    assert shapes == {"dense": (3, 2), "linear": (3, 2, 1), "history": (3, 7, 4), "history.length": (3,)}
    assert model.example_inputs()["history.length"].dtype == torch.int32


def test_flat_puts_vectors_before_numbers() -> None:
    model = Model(FIELDS)
    model.embed("embedding", dim=2)
    inputs = {"embedding": torch.arange(4.0).reshape(1, 2, 2), "dense": torch.tensor([[8.0, 9.0]])}
    assert model.flat(inputs).tolist() == [[0, 1, 2, 3, 8, 9]]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "dense", "dim": 1}, "'dense' is taken"),
        ({"name": "a.length", "dim": 1}, "not a usable name"),
        ({"name": "first", "dim": 4}, "declared twice"),
        ({"name": "x", "dim": 0}, "dim=0"),
        ({"name": "x", "dim": 2, "kind": "linear"}, "'linear' takes dim=1"),
        ({"name": "x", "dim": 2, "kind": "wide"}, "kind='wide'"),
        ({"name": "x", "dim": 2, "slots": []}, "no slots"),
        ({"name": "x", "dim": 2, "slots": ["itme"]}, "did you mean item? Slots of the job: user, item, seen"),
        ({"name": "x", "dim": 2, "slots": ["item", "item"]}, "listed twice"),
        ({"name": "x", "dim": 2, "slots": ["seen"]}, "'seen' is a sequence; give sequence_length"),
        ({"name": "x", "dim": 2, "slots": ["item"], "sequence_length": 5}, "slots with it: seen"),
        ({"name": "x", "dim": 2, "slots": ["item", "seen"], "sequence_length": 5}, "exactly one slot"),
        ({"name": "x", "dim": 4, "table": "frist"}, "did you mean first?"),
        ({"name": "x", "dim": 2, "table": "first"}, "rows of dim 4, not embedding rows of dim 2"),
        ({"name": "x", "dim": 4, "table": "second"}, "no table 'second'"),
    ],
)
def test_a_wrong_declaration_says_what_would_be_right(arguments: dict[str, object], complaint: str) -> None:
    model = Model(FIELDS)
    model.embed("first", dim=4)
    model.embed("second", dim=4, slots=["user"], table="first")
    with pytest.raises(ModelError) as caught:
        model.embed(**arguments)  # type: ignore[arg-type]
    assert complaint in str(caught.value)


def test_fields_must_fit_together() -> None:
    with pytest.raises(ModelError, match="2 slots but 1 poolings"):
        Fields(("a", "b"), ("sum",))
    with pytest.raises(ModelError, match="2 slots but 1 in keys_of"):
        Fields(("a", "b"), ("sum", "sum"), keys_of=("",))


def test_a_model_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="needs a forward"):
        Model(FIELDS)({})
