"""Small jobs and inputs that fit every model of the zoo."""

from __future__ import annotations

import torch
from torch import Tensor

from clickline.config.model import ModelSettings
from clickline.models import Fields, Model, build_model, model_names

SMALL = {
    "xdeepfm": {"cin_layers": [5, 4]},
    "autoint": {"attention_layers": 2, "head_dim": 4},
    "finalmlp": {"heads": 4, "gate_hidden": [8], "first_gate": ["user"], "second_gate": ["item", "genre"]},
    "din": {"sequence_length": 5, "attention_hidden": [8, 4]},
    "mmoe": {"experts": 3, "tower": [4]},
}

EVERY_MODEL = model_names()


def fields_for(name: str, *, dense: int = 3, labels: int = 1) -> Fields:
    slots, pooling = ("user", "item", "genre", "place"), ("sum", "sum", "mean", "max")
    if name == "din":
        slots, pooling = (*slots, "seen", "seen_genre"), (*pooling, "sequence", "sequence")
    keys_of = tuple({"seen": "item", "seen_genre": "genre"}.get(slot, "") for slot in slots)
    return Fields(slots, pooling, dense, tuple(f"label{i}" for i in range(labels)), keys_of)


def small(name: str, *, dense: int = 3, labels: int = 1, dropout: float = 0.0, **params: object) -> Model:
    """A model of the zoo, a few units wide, always with the same weights."""
    torch.manual_seed(7)
    spec = ModelSettings(
        name=name, embedding_dim=4, hidden=[16, 8], dropout=dropout, params=SMALL.get(name, {}) | params
    )
    return build_model(spec, fields_for(name, dense=dense, labels=labels))


def random_inputs(model: Model, rows: int, *, seed: int = 3) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    inputs = {
        name: torch.randn(zeros.shape, generator=generator) if zeros.is_floating_point() else zeros
        for name, zeros in model.example_inputs(rows).items()
    }
    for name, e in model.embeddings.items():
        if e.sequence_length:
            lengths = 1 + torch.arange(rows, dtype=torch.int32) % e.sequence_length
            inputs[e.length_name] = lengths
            inputs[name] *= (torch.arange(e.sequence_length) < lengths[:, None]).unsqueeze(2)
    return inputs


def with_gradients(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: v.clone().requires_grad_() if v.is_floating_point() else v for k, v in inputs.items()}
