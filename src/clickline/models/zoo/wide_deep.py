"""Wide & Deep (Cheng et al., 2016, arXiv:1606.07792): a linear part that remembers beside hidden layers that
generalise.

The paper feeds hand-made crosses to the wide part; here they are slots of the log like any other, and `wide_slots`
picks them.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from clickline.data.embeddings import Fields
from clickline.models.base import Model
from clickline.models.layers import MLP, FirstOrder
from clickline.models.parameter_types import Share, Size, Widths


class WideDeep(Model):
    def __init__(
        self,
        fields: Fields,
        *,
        embedding_dim: Size = 10,
        hidden: Widths = (256, 128),
        dropout: Share = 0.0,
        wide_slots: Sequence[str] | None = None,
    ) -> None:
        super().__init__(fields)
        self.embed("linear", dim=1, kind="linear", slots=wide_slots)
        vectors = self.embed("embedding", dim=embedding_dim)
        self.wide = FirstOrder(fields.dense)
        self.deep = MLP(vectors.width + fields.dense, hidden, dropout=dropout)

    def forward(self, inputs: dict[str, Tensor]) -> Tensor:
        wide = self.wide(inputs["linear"], inputs.get("dense"))
        return wide + self.deep(self.flat(inputs)).squeeze(1)
