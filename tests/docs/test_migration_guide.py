"""docs/migrate-from-paddlerec.md: its models are those of the zoo, its page of keys is current."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from clickline.compat.paddlerec.keys_page import page
from clickline.config.model import ModelSettings
from clickline.data.embeddings import Fields
from clickline.models.registry import build_model

DOCS = Path(__file__).parents[2] / "docs"
MODELS = {"DNN": "dnn", "DeepFM": "deepfm", "WideDeep": "wide_deep"}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_the_guide_computes_what_that_of_the_zoo_does(tmp_path: Path, name: str) -> None:
    guide = (DOCS / "migrate-from-paddlerec.md").read_text(encoding="utf-8")
    code = next(block for block in re.findall(r"```python\n(.*?)```", guide, re.S) if f"class {name}(" in block)
    (tmp_path / "model.py").write_text(code)
    shape = {"embedding_dim": 4, "hidden": [8, 3]}
    fields = Fields(slots=("1", "2", "3"), pooling=("sum",) * 3, dense=2, labels=("click",), keys_of=("",) * 3)
    own = build_model(ModelSettings.model_validate({"name": f"{tmp_path / 'model.py'}:{name}"} | shape), fields)
    zoo = build_model(ModelSettings.model_validate({"name": MODELS[name]} | shape), fields)
    for mine, theirs in zip(own.parameters(), zoo.parameters(), strict=True):
        mine.data = theirs.data
    generator = torch.Generator().manual_seed(1)
    inputs = {key: torch.rand(value.shape, generator=generator) for key, value in zoo.example_inputs(rows=5).items()}
    torch.testing.assert_close(own(inputs), zoo(inputs))


def test_the_page_of_keys_is_current() -> None:
    assert (DOCS / "reference" / "paddlerec-keys.md").read_text(encoding="utf-8") == page(), "make reference"


def test_every_key_says_what_becomes_of_it() -> None:
    keys = page().partition("## Models")[0]
    rows = [line.strip("| ").split(" | ") for line in keys.splitlines() if line.startswith(("| `", "| **"))]
    assert len(rows) > 150
    assert [row for row in rows if len(row) != 2 or not row[1].endswith(".")] == []
