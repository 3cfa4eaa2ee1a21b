"""hyper_parameters as keys of the job: the model's shape, and how dense parameters and rows learn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clickline.compat.paddlerec.reading.hyper_parameters import OPTIMIZERS, HyperParameters
from clickline.compat.paddlerec.translation.job_keys import JobKeys
from clickline.compat.paddlerec.translation.model_names import ModelChoice
from clickline.config.loading.origins import Path as Keys
from clickline.models.parameters import Parameters
from clickline.models.zoo_signatures import SIGNATURES

_AT = ("hyper_parameters",)
_RATE = 0.001
"""PaddleRec's learning rate where none is given."""
_DIN_HIDDEN = [80, 40]
_DIN_CLIP = 1.0
"""Norm of gradients that keeps din from diverging at its rate of 0.85."""
_VECTORS = re.compile(r"emb|SparseFeat", re.IGNORECASE)
_LAYER = re.compile(r"(?:fc|linear|conv2d|batch_norm)_\d+\.[wb]_\d+$", re.ASCII)
"""Names that Paddle gives to parameters of layers."""
_ATTENTION = {"heads": "n_head", "head_dim": "d_key", "attention_layers": "n_interacting_layers"}
"""What older files call the parameters of autoint."""
USUAL = HyperParameters.model_validate(
    {
        "optimizer": {"class": "adam", "learning_rate": _RATE},
        "sparse_feature_dim": 9,
        "fc_sizes": [512, 256, 128, 32],
    }
)
"""What PaddleRec's files have for rank/dnn, where a file has no hyper_parameters of its own."""


def put_frozen(keys: JobKeys, names: Sequence[str], source: Keys) -> None:
    """Put what finetuning leaves as it is: a variable of PaddleRec's, or a part of a model here."""
    for name in names:
        if _VECTORS.search(name):
            keys.put("train.frozen", ["embedding"], source)
        elif _LAYER.match(name):
            keys.tell(source, f"not carried: {name} is a layer of Paddle's; name a part of the model, such as mlp.0")
        else:
            keys.put("train.frozen", [name], source)


class HyperKeys:
    """Puts hyper-parameters of one model into a job."""

    def __init__(self, keys: JobKeys, hyper: HyperParameters | None, choice: ModelChoice) -> None:
        self._keys = keys
        self._hyper = hyper or USUAL
        self._given = hyper is not None
        self._choice = choice
        signature = SIGNATURES.get(choice.name)
        self._taken = set(Parameters(signature).names) if signature else None
        """Parameters that the model takes; None if it is not of the zoo."""
        tables = signature.tables if signature else None
        self._tables: tuple[str, ...] = ("embedding",) if tables is None else tuple(tables)

    def put(self, *, epochs: int, source: Keys) -> None:
        """Put all of them; `source` is the path that stands for what PaddleRec does without being told."""
        if not self._given:
            self._keys.tell(_AT, "not given; PaddleRec's own of rank/dnn are used: Adam, 0.001, 9, [512, 256, 128, 32]")
        self._keys.put("model.name", self._choice.name, source)
        self._put_shape()
        self._put_optimizer(epochs=epochs, source=source)
        self._keys.tell_not_carried(self._hyper, _AT)
        for name in self._hyper.own_keys:
            self._keys.tell((*_AT, name), "not carried: no model of the zoo has it")

    def _put_shape(self) -> None:
        hyper, model = self._hyper, self._choice.name
        widths = ("sparse_feature_dim", "embedding_dim", "emb_dim", "item_emb_size", "cat_emb_size")
        self._first("model.embedding_dim", "embedding_dim", *widths)
        if hyper.item_emb_size != hyper.cat_emb_size and hyper.cat_emb_size is not None:
            self._keys.tell(
                (*_AT, "cat_emb_size"), "not carried: vectors of all slots have the length of item_emb_size"
            )
        # xdeepfm has both, and reads layer_sizes_dnn.
        self._first("model.hidden", "hidden", "layer_sizes_dnn", "fc_sizes", "layer_sizes")
        self._first("model.dropout", "dropout", "dropout_rate")
        units = [width for n in (1, 2, 3) if (width := getattr(hyper, f"hidden{n}_units")) is not None]
        if units:
            self._parameter("model.hidden", "hidden", units, "hidden1_units")
        if self._choice.paddle_name == "din" and "fc_sizes" not in hyper.model_fields_set:
            self._keys.put("model.hidden", _DIN_HIDDEN, _AT)
        if hyper.expert_size is not None:
            self._parameter("model.hidden", "hidden", [hyper.expert_size], "expert_size")
        self._plain("experts", "expert_num")
        if hyper.tower_size is not None:
            self._parameter("model.params.tower", "tower", [hyper.tower_size], "tower_size")
        self._plain("cross_layers", "cross_num")
        self._plain("cin_layers", "layer_sizes_cin")
        self._plain("bilinear", "bilinear_type")
        self._plain("reduction", "reduction_ratio")
        if self._choice.paddle_name == "dcn":
            self._keys.put("model.params.rank", 1, (*_AT, "cross_num"))
            self._keys.tell(
                (*_AT, "cross_num"), "dcn is dcn_v2 with cross matrices of rank 1 here, a little more than its vectors"
            )
        if hyper.is_Stacked is not None:
            structure = "stacked" if hyper.is_Stacked else "parallel"
            self._parameter("model.params.structure", "structure", structure, "is_Stacked")
        if hyper.low_rank is not None and hyper.use_low_rank_mixture is not False:
            self._plain("rank", "low_rank")
        self._put_attention()
        if hyper.act != "relu":
            self._keys.tell(
                (*_AT, "act"), f"not carried: hidden layers of {model} have their own activation, not {hyper.act}"
            )

    def _put_attention(self) -> None:
        hyper = self._hyper
        for parameter, name in _ATTENTION.items():
            self._plain(parameter, name)
        self._plain("heads", "head_num")
        if (sizes := hyper.attn_layer_sizes) is None:
            return
        self._parameter("model.params.attention_layers", "attention_layers", len(sizes), "attn_layer_sizes")
        heads = hyper.head_num or 2
        self._parameter("model.params.head_dim", "head_dim", max(1, sizes[0] // heads), "attn_layer_sizes")
        if len(set(sizes)) > 1:
            self._keys.tell((*_AT, "attn_layer_sizes"), f"layers of one width: all have that of the first, {sizes[0]}")

    def _put_optimizer(self, *, epochs: int, source: Keys) -> None:
        hyper, keys, at = self._hyper, self._keys, (*_AT, "optimizer")
        optimizer = hyper.optimizer
        rates = ("learning_rate", optimizer.learning_rate), ("learning_rate_base_lr", optimizer.learning_rate_base_lr)
        rate: float = hyper.learning_rate or _RATE
        rate_at: Keys = (*_AT, "learning_rate")
        for name, value in rates:
            if value is not None:
                rate, rate_at = value, (*at, name)
        clip = hyper.clip_by_norm or 0.0
        if optimizer.learning_rate_base_lr is not None:
            message = f"stays as it is, while PaddleRec's din lowers it; gradients are clipped to {_DIN_CLIP:g} instead"
            keys.tell((*at, "learning_rate_base_lr"), message)
            clip = clip or _DIN_CLIP
        rule = OPTIMIZERS[optimizer.kind]
        keys.put("train.optimizer.name", rule, (*at, "class"))
        keys.put("train.optimizer.learning_rate", rate, rate_at)
        penalty = hyper.reg if rule == "sgd" else 0.0
        if hyper.reg and rule != "sgd":
            keys.tell((*_AT, "reg"), f"not carried: PaddleRec applies it under SGD only, and this is {rule}")
        if penalty:
            keys.put("train.optimizer.weight_decay", penalty, (*_AT, "reg"))
        if clip:
            keys.put("train.optimizer.clip", clip, (*_AT, "clip_by_norm"))
        for table in self._tables:
            prefix = f"tables.{table}"
            keys.put(f"{prefix}.optimizer.name", rule, (*at, "class"))
            keys.put(f"{prefix}.optimizer.learning_rate", rate, rate_at)
            # Linear tables are FTRL by default, and what belongs to FTRL must not stay behind.
            if penalty or table == "linear":
                keys.put(f"{prefix}.optimizer.l2", penalty, (*_AT, "reg"))
            if optimizer.learning_rate_base_lr is not None:
                keys.put(f"{prefix}.optimizer.clip", clip, (*_AT, "clip_by_norm"))
            if table == "linear" and rule == "adagrad":
                keys.put(f"{prefix}.optimizer.initial", 0.0, (*at, "class"))
        # PaddleRec's rows go on learning in every epoch, and it predicts with the parameters as they are.
        if epochs > 1 and "embedding" in self._tables:
            keys.put("tables.embedding.restart_epochs", False, source)
        keys.put("train.average", 0.0, source)

    def _first(self, key: str, parameter: str, *names: str) -> None:
        """Put the first of some hyper-parameters that is given."""
        for name in names:
            if (value := getattr(self._hyper, name)) is not None:
                self._parameter(key, parameter, value, name)
                return

    def _plain(self, parameter: str, name: str) -> None:
        if (value := getattr(self._hyper, name)) is not None:
            self._parameter(f"model.params.{parameter}", parameter, value, name)

    def _parameter(self, key: str, parameter: str, value: Any, name: str) -> None:
        if self._taken is not None and parameter not in self._taken:
            if self._given:
                self._keys.tell((*_AT, name), f"not carried: the model {self._choice.name} does not take it")
            return
        if self._taken is None and key.startswith("model.params"):
            self._keys.tell((*_AT, name), "not carried: a model of your own has its parameters in model.params")
            return
        self._keys.put(key, value, (*_AT, name))
