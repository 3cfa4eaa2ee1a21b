"""hyper_parameters of a config.yaml: the optimizer, and keys that each model has for itself.

A key that no model of the zoo has is reported, not refused, as models of one's own may have any; one that is nearly a
known key is a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from clickline.compat.paddlerec.reading.value_types import Lower, NotCarried, Positive, Switch, Text, Whole
from clickline.config.loading.cross_checks import Contradiction, CrossChecked, mapping_at, text_at
from clickline.config.loading.key_paths import fields_by_key
from clickline.config.loading.suggestions import closest, suggestion
from clickline.config.section import Section

OPTIMIZERS = {"sgd": "sgd", "adam": "adam", "adagrad": "adagrad", "adamw": "adamw"}
STRATEGIES = {"sync": "sync", "async": "async", "half_async": "half_async", "geo": "geo"}
_NEARLY = 0.85
_GROWING = "tables grow with the keys that the data has"
Rate = Annotated[float, Field(gt=0, le=100)]
Width = Annotated[int, Field(ge=1, le=65_536)]


def _named(value: Any) -> Any:
    """Let `optimizer: adam` stand for {class: adam}."""
    return {"class": value} if isinstance(value, str) else value


class PaddleOptimizer(CrossChecked):
    """hyper_parameters.optimizer."""

    kind: Annotated[str, Lower] = Field(alias="class")
    """`train.optimizer.name`, and that of the tables: SGD, Adam or Adagrad."""
    learning_rate: Rate | None = None
    """`train.optimizer.learning_rate`, and that of the tables; 0.001 if not given."""
    learning_rate_base_lr: Rate | None = None
    """The same, of din, which lowers it later on; here it stays."""
    strategy: Annotated[str, Lower] = ""
    """`strategy`, where there are parameter servers."""
    adam_lazy_mode: Switch | None = None
    """Nothing: rows of tables learn when they are touched, and then only."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        kind, strategy = text_at(given, "class"), text_at(given, "strategy")
        if kind is not None and kind.strip().lower() not in OPTIMIZERS:
            known = suggestion(kind, ("SGD", "Adam", "Adagrad", "AdamW"), kind="optimizers")
            yield ("class",), f"no optimizer {kind!r} here; {known}"
        if strategy is not None and strategy.lower() not in STRATEGIES:
            yield ("strategy",), f"no strategy {strategy!r} here; {suggestion(strategy, STRATEGIES, kind='strategies')}"


class HyperParameters(CrossChecked):
    """The section; what is in none of its fields is the model's own."""

    model_config = ConfigDict(extra="allow")

    optimizer: Annotated[PaddleOptimizer, BeforeValidator(_named)]
    """See below."""
    learning_rate: Rate | None = None
    """That of the optimizer, where it stands outside of it."""
    reg: Annotated[float, Field(ge=0, le=1e30)] = 0.0
    """SGD: `tables.*.optimizer.l2` and `train.optimizer.weight_decay`; PaddleRec has no use for it under others."""
    sparse_inputs_slots: Positive | None = None
    """`features.slots`: 27 is the label `click` and slots 1 to 26."""
    sparse_feature_number: Annotated[Positive | None, NotCarried(_GROWING)] = None
    """Nothing: tables grow with the keys that the data has."""
    sparse_feature_dim: Positive | None = None
    """`model.embedding_dim`."""
    dense_input_dim: Whole | None = None
    """`features.dense`: one feature `dense_feature` of so many numbers."""
    dense_feature_dim: Whole | None = None
    """The same, of older files."""
    fc_sizes: list[Width] | None = None
    """`model.hidden`."""
    layer_sizes: list[Width] | None = None
    """The same, of slot_dnn."""
    distributed_embedding: Annotated[Switch, NotCarried("rows are on parameter servers whenever there are some")] = (
        False
    )
    """Nothing: rows are on parameter servers whenever there are some."""
    is_sparse: Annotated[Switch, NotCarried("gradients of tables are always sparse")] = True
    """Nothing: gradients of tables are always sparse."""
    act: Annotated[str, Lower] = "relu"
    """relu; hidden layers here have no other (din: `model.params.activation`)."""
    num_field: Positive | None = None
    """Number of values of a row, where one slot has them all; told by `sparse_slots` and `dense_slots` otherwise."""
    clip_by_norm: Annotated[float, Field(ge=0, le=1e30)] | None = None
    """`train.optimizer.clip`, over all dense parameters together."""
    cross_num: Positive | None = None
    """dcn, dcn_v2: `model.params.cross_layers`."""
    is_Stacked: Switch | None = None
    """dcn_v2: `model.params.structure`: stacked or parallel."""
    use_low_rank_mixture: Switch | None = None
    """dcn_v2: whether `low_rank` counts."""
    low_rank: Positive | None = None
    """dcn_v2: `model.params.rank`."""
    num_experts: Annotated[Positive | None, NotCarried("the cross layers of dcn_v2 have one expert here")] = None
    """dcn_v2: nothing; cross layers have one expert."""
    l2_reg_cross: Annotated[float | None, NotCarried("cross layers have no penalty of their own")] = None
    """dcn, dcn_v2: nothing; cross layers have no penalty of their own."""
    dnn_use_bn: Annotated[Switch, NotCarried("hidden layers have no batch normalization")] = False
    """Nothing: hidden layers have no batch normalization."""
    layer_sizes_dnn: list[Width] | None = None
    """xdeepfm: `model.hidden`."""
    layer_sizes_cin: list[Width] | None = None
    """xdeepfm: `model.params.cin_layers`."""
    feature_number: Annotated[Positive | None, NotCarried(_GROWING)] = None
    """autoint: nothing, as `sparse_feature_number`."""
    embedding_dim: Positive | None = None
    """autoint: `model.embedding_dim`."""
    head_num: Positive | None = None
    """autoint: `model.params.heads`."""
    attn_layer_sizes: list[Width] | None = None
    """autoint: `model.params.attention_layers` and `head_dim`, which is the width over the heads."""
    use_residual: Annotated[Switch | None, NotCarried("autoint always has the residual path")] = None
    """autoint: nothing; it always has the residual path."""
    scaling: Annotated[Switch | None, NotCarried("scores of attention are always scaled")] = None
    """autoint: nothing; scores of attention are always scaled."""
    use_wide: Annotated[Switch | None, NotCarried("autoint has no linear part here")] = None
    """autoint: nothing; it has no linear part here."""
    use_sparse: Annotated[Switch | None, NotCarried("gradients of tables are always sparse")] = None
    """autoint: nothing; gradients of tables are always sparse."""
    item_emb_size: Positive | None = None
    """din: `model.embedding_dim`."""
    cat_emb_size: Positive | None = None
    """din: the same; vectors of all slots have one length."""
    item_count: Annotated[Positive | None, NotCarried(_GROWING)] = None
    """din: nothing, as `sparse_feature_number`."""
    cat_count: Annotated[Positive | None, NotCarried(_GROWING)] = None
    """din: nothing, as `sparse_feature_number`."""
    use_DataLoader: Annotated[Switch | None, NotCarried("there is one way to read data")] = None
    """din: nothing; there is one way to read data."""
    feature_size: Positive | None = None
    """mmoe: `features.dense`: so many columns behind the labels."""
    expert_num: Positive | None = None
    """mmoe: `model.params.experts`."""
    expert_size: Width | None = None
    """mmoe: `model.hidden`: one layer of it."""
    gate_num: Annotated[int, Field(ge=1, le=16)] | None = None
    """mmoe: number of `features.labels`."""
    tower_size: Width | None = None
    """mmoe: `model.params.tower`."""
    n_head: Positive | None = None
    """autoint of older files: `model.params.heads`."""
    d_key: Positive | None = None
    """autoint of older files: `model.params.head_dim`."""
    n_interacting_layers: Positive | None = None
    """autoint of older files: `model.params.attention_layers`."""
    bilinear_type: Annotated[Literal["all", "each", "interaction"], Lower] | None = None
    """fibinet: `model.params.bilinear`."""
    reduction_ratio: Positive | None = None
    """fibinet: `model.params.reduction`."""
    dropout_rate: Annotated[float, Field(ge=0, lt=1)] | None = None
    """`model.dropout`."""
    hidden1_units: Width | None = None
    """wide_deep of older files: `model.hidden`, with the next two."""
    hidden2_units: Width | None = None
    """The same."""
    hidden3_units: Width | None = None
    """The same."""
    dict_dim: Annotated[Positive | None, NotCarried(_GROWING)] = None
    """slot_dnn: nothing, as `sparse_feature_number`."""
    emb_dim: Positive | None = None
    """slot_dnn: `model.embedding_dim`."""
    slot_num: Positive | None = None
    """slot_dnn: `features.slots`."""
    adam_d2sum: Annotated[Switch | None, NotCarried("adam is the same everywhere")] = None
    """Nothing: adam is the same everywhere."""
    model: Text | None = None
    """Clickline's own: the model of the zoo, where no directory names it; also `-o hyper_parameters.model=deepfm`."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        known = list(fields_by_key(cls))
        for name in given:
            if name not in known and (meant := closest(name, known, cutoff=_NEARLY)):
                yield (name,), f"unknown key; did you mean {meant}?"
        optimizer = mapping_at(given, "optimizer")
        if "learning_rate" in given and "learning_rate" in optimizer:
            yield ("learning_rate",), "given twice: it is in optimizer, too; give it there only"

    @property
    def own_keys(self) -> list[str]:
        """Keys that no model of the zoo has."""
        return list(self.model_extra or ())


def not_carried(section: Section) -> Iterator[tuple[str, str]]:
    """Keys of a section that were given to some effect and have none here, with the reason."""
    for name, field in type(section).model_fields.items():
        reasons = [data.reason for data in field.metadata if isinstance(data, NotCarried)]
        # False, nothing and the default ask for nothing, so there is nothing to report.
        if reasons and name in section.model_fields_set and getattr(section, name) not in (None, False, "", [], {}):
            yield field.alias or name, reasons[0]
