"""The models of the zoo without their networks: what each takes, and which tables it has.

Made from the classes by `python -m clickline.models.signature_source`; edit the classes, not this file. Jobs are
checked against it, so that `clickline validate` need not wait for PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field

from clickline.data.embeddings import Fields
from clickline.models.model_signature import ModelSignature
from clickline.models.parameter_types import Activation, BilinearKind, Share, Size, Widths


class LRSignature(ModelSignature):
    tables = ("linear",)

    def __init__(
        self,
        fields: Fields,
    ) -> None: ...


class FMSignature(ModelSignature):
    tables = ("linear", "embedding")

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
    ) -> None: ...


class FFMSignature(ModelSignature):
    tables = ("linear", "embedding")

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 4,
    ) -> None: ...


class WideDeepSignature(ModelSignature):
    tables = ("linear", "embedding")
    slot_parameters = ("wide_slots",)

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        wide_slots: Sequence[str] | None = None,
    ) -> None: ...


class DNNSignature(ModelSignature):
    tables = ("embedding",)

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
    ) -> None: ...


class DeepFMSignature(ModelSignature):
    tables = ("linear", "embedding")

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
    ) -> None: ...


class DCNV2Signature(ModelSignature):
    tables = ("embedding",)

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        cross_layers: Size = 3,
        rank: Annotated[int, Field(ge=0)] = 0,
        structure: Literal["parallel", "stacked"] = "parallel",
    ) -> None: ...


class XDeepFMSignature(ModelSignature):
    tables = ("linear", "embedding")

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        cin_layers: Annotated[Widths, Field(min_length=1)] = (32, 32),
    ) -> None: ...


class AutoIntSignature(ModelSignature):
    tables = ("embedding",)

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        attention_layers: Size = 3,
        heads: Size = 2,
        head_dim: Size = 16,
    ) -> None: ...


class FiBiNETSignature(ModelSignature):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        bilinear: BilinearKind = "interaction",
        reduction: Size = 3,
    ) -> None: ...


class FinalMLPSignature(ModelSignature):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        second_hidden: Widths | None = None,
        heads: Size = 8,
        gate_hidden: Widths = (64,),
        first_gate: Sequence[str] = (),
        second_gate: Sequence[str] = (),
    ) -> None: ...


class DINSignature(ModelSignature):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        histories: Mapping[str, str] | None = None,
        sequence_length: Size = 50,
        attention_hidden: Annotated[Widths, Field(min_length=1)] = (80, 40),
        activation: Activation = "prelu",
        normalise: bool = False,
    ) -> None: ...


class MMoESignature(ModelSignature):
    several_labels = True
    tables = ("embedding",)

    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        experts: Size = 4,
        tower: Widths = (64,),
    ) -> None: ...


SIGNATURES: dict[str, type[ModelSignature]] = {
    "lr": LRSignature,
    "fm": FMSignature,
    "ffm": FFMSignature,
    "wide_deep": WideDeepSignature,
    "dnn": DNNSignature,
    "deepfm": DeepFMSignature,
    "dcn_v2": DCNV2Signature,
    "xdeepfm": XDeepFMSignature,
    "autoint": AutoIntSignature,
    "fibinet": FiBiNETSignature,
    "finalmlp": FinalMLPSignature,
    "din": DINSignature,
    "mmoe": MMoESignature,
}
