"""Types of the native core. One section per bind_*.cpp."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

arch: str

# --- hash ---
def xxh64(data: bytes, seed: int = 0) -> int: ...
def feature_key(slot: str, value: bytes) -> int: ...
def bucket_of(key: int) -> int: ...

# --- plan ---
class Plan:
    """The distinct keys of a batch, and the way from them to the batch (gather) and back (scatter).

    `unique` is ordered by bucket_of, then by first occurrence; all results are the same for any number of threads.
    Arrays may be numpy arrays or CPU tensors; they must be C-contiguous (labels may be strided).
    """

    def __init__(
        self,
        keys: NDArray[np.uint64],
        offsets: NDArray[np.int64] | None,
        columns: int,
        select: Sequence[int],
        pooling: Sequence[int],
        labels: NDArray[np.float32],
        sequence_length: int = 0,
        threads: int = 1,
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def unique(self) -> NDArray[np.uint64]: ...
    @property
    def slots(self) -> NDArray[np.uint16]: ...
    @property
    def shows(self) -> NDArray[np.float32]: ...
    @property
    def clicks(self) -> NDArray[np.float32]: ...
    @property
    def lengths(self) -> NDArray[np.int32]: ...
    def gather(self, rows: Any, out: Any, threads: int = 1) -> None: ...
    def scatter(self, grad: Any, rows: Any, out: Any, threads: int = 1) -> None: ...
