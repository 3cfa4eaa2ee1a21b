"""From the job's `model` section to a model, or to an error that helps."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from clickline.config.model import ModelSettings
from clickline.errors import ModelError
from clickline.models import Fields, Model, build_model, model_class, model_names
from support.model_jobs import fields_for

DOCS = Path(__file__).parents[2] / "docs" / "models.md"


def build(name: str, fields: Fields | None = None, /, **params: object) -> Model:
    return build_model(ModelSettings(name=name, hidden=[8, 8], params=params), fields or fields_for(name))


def complaint(name: str, fields: Fields | None = None, /, **params: object) -> str:
    with pytest.raises(ModelError) as caught:
        build(name, fields, **params)
    return str(caught.value)


def test_the_zoo() -> None:
    listed = ", ".join(model_names())
    assert listed == "lr, fm, ffm, wide_deep, dnn, deepfm, dcn_v2, xdeepfm, autoint, fibinet, finalmlp, din, mmoe"


@pytest.mark.parametrize("name", model_names())
def test_every_model_builds_with_the_defaults_of_the_job(name: str) -> None:
    assert isinstance(build_model(ModelSettings(name=name), fields_for(name)), Model)


@pytest.mark.parametrize("name", model_names())
def test_every_model_is_in_the_guide_with_its_paper_and_its_parameters(name: str) -> None:
    row = next(line for line in DOCS.read_text().splitlines() if line.startswith(f"| `{name}` |"))
    module = model_class(name).__module__
    years = re.findall(r"\b(?:19|20)\d\d\b", __import__(module, fromlist=["x"]).__doc__ or "")
    assert years and years[0] in row
    shared = ("self", "fields", "embedding_dim", "hidden", "dropout")
    code = model_class(name).__init__.__code__
    own = [p for p in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if p not in shared]
    assert all(f"`{parameter}`" in row for parameter in own), own


def test_an_unknown_name_lists_the_zoo() -> None:
    text = complaint("depfm", fields_for("lr"))
    assert "unknown model 'depfm'; did you mean deepfm? known: lr, fm," in text and "module:Class" in text


def test_an_unknown_parameter_names_the_nearest() -> None:
    text = complaint("dcn_v2", cros_layers=2)
    assert text == (
        "model.params.cros_layers: unknown; did you mean cross_layers? known: cross_layers, rank, structure"
    )
    assert "lr has no parameters of its own" in complaint("lr", cross_layers=2)


@pytest.mark.parametrize(
    ("name", "params", "expected"),
    [
        ("dcn_v2", {"cross_layers": "three"}, "model.params.cross_layers: 'three': Input should be a valid integer"),
        ("dcn_v2", {"cross_layers": 0}, "model.params.cross_layers: 0: Input should be greater than or equal to 1"),
        ("dcn_v2", {"structure": "paralel"}, "'paralel': Input should be 'parallel' or 'stacked'"),
        ("xdeepfm", {"cin_layers": [8, "x"]}, "model.params.cin_layers[1]: 'x': Input should be a valid integer"),
        ("xdeepfm", {"cin_layers": []}, "model.params.cin_layers: []"),
        ("xdeepfm", {"cin_layers": 8}, "model.params.cin_layers: 8"),
        ("fibinet", {"bilinear": "some"}, "'all', 'each' or 'interaction'"),
        ("deepfm", {"hidden": [3]}, "model.params.hidden: write it as model.hidden"),
        ("wide_deep", {"wide_slots": ["usr"]}, "no slot 'usr'; did you mean user?"),
        ("finalmlp", {"heads": 3}, "8 is not a multiple of heads=3"),
        ("finalmlp", {"first_gate": ["itm"]}, "no slot 'itm'; did you mean item?"),
        ("din", {"histories": {"sen": "item"}}, "'sen' is not a slot with pooling: sequence; did you mean seen?"),
        ("din", {"histories": {"seen": "itm"}}, "no slot of the candidate"),
        ("din", {"histories": {}}, "no slot with pooling: sequence"),
    ],
)
def test_a_wrong_value_is_named(name: str, params: dict[str, object], expected: str) -> None:
    assert expected in complaint(name, **params)


def test_models_that_need_more_than_the_job_has() -> None:
    assert "no slot of the job has pooling: sequence" in complaint("din", fields_for("lr"))
    unpaired = Fields(("item", "seen"), ("sum", "sequence"))
    assert "give the slot keys_of, or model.params.histories: {seen: one of item}" in complaint("din", unpaired)
    assert build("din", unpaired, histories={"seen": "item"}).unused_slots == ()
    assert "needs two or more" in complaint("fibinet", Fields(("item",), ("sum",)))
    for name in model_names():
        assert complaint(name, Fields((), (), dense=3))


def test_several_labels_need_a_model_for_them() -> None:
    text = complaint("deepfm", fields_for("deepfm", labels=2))
    assert "predicts one label, but features.labels has 2 (label0, label1)" in text and "mmoe" in text


def own_model(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.py"
    path.write_text("from clickline.models import Model\n" + text)
    return f"{path}:Mine"


def test_a_model_of_your_own_gets_only_what_it_takes(tmp_path: Path) -> None:
    mine = own_model(
        tmp_path,
        "class Mine(Model):\n"
        "    def __init__(self, fields, *, hidden, depth=2):\n"
        "        super().__init__(fields)\n"
        "        self.got = (hidden, depth)\n",
    )
    assert build(mine, fields_for("lr"), depth=5).got == ([8, 8], 5)
    assert "did you mean depth? known: depth" in complaint(mine, fields_for("lr"), dept=5)


def test_a_model_of_your_own_may_take_anything(tmp_path: Path) -> None:
    mine = own_model(
        tmp_path,
        "class Mine(Model):\n"
        "    def __init__(self, fields, **settings):\n"
        "        super().__init__(fields)\n"
        "        self.got = sorted(settings)\n",
    )
    assert build(mine, fields_for("lr"), colour="red").got == ["colour", "dropout", "hidden"]


@pytest.mark.parametrize(
    ("body", "params", "expected"),
    [
        ("def __init__(self, fields, *, size): super().__init__(fields)", {}, "model.params.size: needed by"),
        (
            "def __init__(self, fields): super().__init__(fields); len(3)",
            {},
            "could not be built: object of type 'int'",
        ),
        ("def __init__(self): pass", {}, "could not be built: "),
        (
            "def __init__(self, fields, *, size: 'Nowhere' = 1): super().__init__(fields); size + 1",
            {"size": "x"},
            "str",
        ),
    ],
)
def test_a_faulty_model_of_your_own(tmp_path: Path, body: str, params: dict[str, object], expected: str) -> None:
    mine = own_model(tmp_path, f"class Mine(Model):\n    {body}\n")
    assert expected in complaint(mine, fields_for("lr"), **params)


def test_the_guides_model_of_your_own_runs(tmp_path: Path) -> None:
    section = DOCS.read_text().split("## A model of your own", 1)[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None and len(code[1].splitlines()) <= 32
    path = tmp_path / "product.py"
    path.write_text(code[1])
    name = re.search(r"name: \S+\.py:(\w+)", section)
    assert name is not None
    model = build(f"{path}:{name[1]}", fields_for("lr"), factor=0.5)
    logits = model(model.example_inputs(5))
    assert logits.shape == (5,)
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
