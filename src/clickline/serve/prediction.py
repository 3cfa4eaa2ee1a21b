"""What the protocols and the HTTP server know of a predictor: its inputs, its results, and the calls they make.

Neither of them imports a model, a version or a batcher: `PredictionService` is the whole interface between the two
halves of the server, and a test can implement it in a few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from clickline.data.batch import Batch
from clickline.net.request_errors import RequestError

if TYPE_CHECKING:
    from clickline._native import Tensors
    from clickline.data.schema import Schema
    from clickline.net.predictor_documents import PredictorStatus
    from clickline.serve.metrics.request_series import RequestSeries

CacheKey = tuple[str, bytes]
"""A request as the request cache knows it: the name of its protocol, and its body."""


@dataclass(frozen=True, slots=True)
class PredictionInput:
    """Rows to predict for."""

    batch: Batch
    missing: int
    """Values of columns that had to be filled in, whatever number of features are read from each."""


@dataclass(frozen=True, slots=True)
class PredictionResult:
    """What one version predicts for the rows of one request."""

    probability: NDArray[np.float32]
    """[rows, labels]"""
    version: int
    model: str
    tag: str
    """Tag of the variant that was drawn; empty if nothing was split."""
    labels: tuple[str, ...]
    output: str = "probability"
    """What it is called: `value`, of a version whose labels are numbers."""


Outcome = PredictionResult | RequestError
"""How a request ends: predicted, or refused with a reason."""
OnResult = Callable[[Outcome], None]


class Tensor(NamedTuple):
    """One input of a request, by column. Its data are bytes as the binary extension of the Open Inference Protocol has
    them, or a list of values, nested or not."""

    name: str
    datatype: str
    shape: Sequence[int]
    data: memoryview | bytes | Sequence[Any]
    starts: Sequence[int] | None = None
    """Where each row's values start, and the end, if rows have different numbers of them; then `shape` is not read."""


class RequestReader(Protocol):
    """Reads the features of requests as one version defines them. `most_rows`: a request with more is refused."""

    columns: tuple[str, ...]
    """Names of features in requests: the columns of the log that they are read from."""

    def from_json(self, body: bytes, *, most_rows: int) -> PredictionInput: ...
    def from_tensors(self, tensors: Iterable[Tensor] | Tensors, *, most_rows: int) -> PredictionInput: ...
    def from_feasigns(self, body: bytes, *, most_rows: int) -> PredictionInput: ...


ReadAgain = Callable[[RequestReader], PredictionInput]
"""Reads the same request once more, by the features of another version."""


class ReadableVersion(Protocol):
    """A loaded version, as far as reading requests and describing it goes."""

    @property
    def schema(self) -> Schema: ...
    @property
    def reader(self) -> RequestReader: ...
    @property
    def requests(self) -> object | None:
        """Its cache of requests; None if it keeps none."""


class ModelVersions(Protocol):
    """A served model, as far as its metadata goes."""

    @property
    def versions(self) -> list[int]: ...


class VersionChoice(Protocol):
    """The version that was chosen for a request; it answers the request, whatever is switched meanwhile."""

    @property
    def model_version(self) -> ReadableVersion: ...
    @property
    def model(self) -> str: ...
    @property
    def served(self) -> ModelVersions: ...
    @property
    def series(self) -> RequestSeries: ...


class PredictionService(Protocol):
    """A predictor. In `cached`, `submit` and `ask`, `chosen` is what `choose` has returned."""

    @property
    def names(self) -> list[str]: ...
    def choose(
        self, model: str | None = None, *, version: int | None = None, key: str | int | None = None
    ) -> VersionChoice: ...
    def cached(self, chosen: Any, key: CacheKey) -> tuple[PredictionResult, int] | None: ...
    def submit(
        self,
        chosen: Any,
        question: PredictionInput,
        *,
        done: OnResult,
        timeout: float | None = None,
        again: ReadAgain | None = None,
        cache_key: CacheKey | None = None,
    ) -> None: ...
    def ask(
        self, chosen: Any, question: PredictionInput, timeout: float | None = None, *, again: ReadAgain | None = None
    ) -> PredictionResult: ...
    def ready(self) -> bool: ...
    def unready_models(self) -> list[str]: ...
    def data_times(self) -> dict[str, float]: ...
    def status(self) -> PredictorStatus: ...
