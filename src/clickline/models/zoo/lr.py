"""Logistic regression (Richardson, Dominowska, Ragno, 2007, "Predicting Clicks"; with FTRL tables as in McMahan et al.,
2013, "Ad Click Prediction: a View from the Trenches"): one weight for every key, one for every dense number, a bias."""

from __future__ import annotations

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.layers import FirstOrder


class LR(Model):
    def __init__(self, fields: Fields) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear")
        self.first_order = FirstOrder(fields.dense)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        return self.first_order(inputs["linear"], inputs.get("dense"))
