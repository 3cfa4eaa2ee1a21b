"""What parameters of a model may be: types with their limits, for the annotations of a model's `__init__`.

Values from the job are checked against these annotations. The types are apart from the layers that use them, so that
this can be done without PyTorch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

Size = Annotated[int, Field(ge=1, le=65_536)]
Widths = Sequence[Size]
Share = Annotated[float, Field(ge=0, lt=1)]
Activation = Literal["relu", "prelu", "dice"]
BilinearKind = Literal["all", "each", "interaction"]
