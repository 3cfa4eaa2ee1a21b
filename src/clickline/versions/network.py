"""A published network, run: what goes in by name, probabilities out, without PyTorch and without the model's code.

Rows are not part of a network: whoever runs it looks them up, pools them as the schema says, and feeds them under the
names that the manifest gives. Beware: an input of a network has no default; every name of `Network.inputs` must be fed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from clickline.config.loading.suggestions import did_you_mean
from clickline.data.embeddings import Embedding
from clickline.data.schema import Schema
from clickline.errors import VersionError

onnxruntime.disable_telemetry_events()  # models are not reported to anybody
OUTPUT = "probability"
_FETCH = [OUTPUT]
WIDEST_ROW = 4096
LONGEST_SEQUENCE = 1 << 16


def embeddings_of(inputs: Mapping[str, Mapping[str, Any]], schema: Schema) -> dict[str, Embedding]:
    """The declarations behind a manifest's inputs: what is needed to feed the network, without the model's code."""
    embeddings = {}
    for name, described in inputs.items():
        if "table" not in described:
            continue
        shape, slots, length = described.get("shape"), described.get("slots"), described.get("sequence_length", 0)
        # A manifest is untrusted input, and buffers are allocated from these numbers: lengths and widths have limits.
        if not (
            isinstance(described["table"], str)
            and isinstance(slots, list)
            and slots
            and all(slot in schema.slot_names for slot in slots)
            and isinstance(length, int)
            and 0 <= length <= LONGEST_SEQUENCE
            and isinstance(shape, list)
            and shape[1:-1] == [length or len(slots)]
            and isinstance(shape[-1], int)
            and 1 <= shape[-1] <= WIDEST_ROW
        ):
            raise VersionError(f"inputs.{name}: does not fit the schema, or itself: {dict(described)}")
        embeddings[name] = Embedding(name, shape[-1], tuple(slots), sequence_length=length, table=described["table"])
    return embeddings


class Network:
    """A network from a file, ready to run."""

    def __init__(self, content: bytes, *, name: str = "network.onnx", threads: int = 1) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Threads that spin while they wait for work take time that other processes could use.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions share no base but this
            raise VersionError(f"{name}: not a network that can be run: {error}") from error
        self.inputs = {one.name: one for one in self._session.get_inputs()}
        self.outputs = tuple(one.name for one in self._session.get_outputs())

    def run(self, feeds: Mapping[str, NDArray[Any]], *, fetch: str = OUTPUT) -> NDArray[np.float32]:
        """Run the network; one output, for all rows."""
        for name in feeds:
            if name not in self.inputs:
                raise VersionError(_unknown("input", name, self.inputs))
        for name in self.inputs:
            if name not in feeds:
                raise VersionError(f"input {name!r} is not fed; the network needs: {', '.join(self.inputs)}")
        if fetch not in self.outputs:
            raise VersionError(_unknown("output", fetch, self.outputs))
        try:
            return np.asarray(self._session.run([fetch], dict(feeds))[0])
        except Exception as error:  # shapes and types that do not fit
            raise VersionError(f"the network does not run on what it is fed: {error}") from error

    def run_checked(self, feeds: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Probabilities of feeds whose names were compared with `inputs` before: what is left is the runtime's own."""
        try:
            found: NDArray[np.float32] = self._session.run(_FETCH, feeds)[0]
        except Exception as error:  # shapes and types that do not fit
            raise VersionError(f"the network does not run on what it is fed: {error}") from error
        return found


def _unknown(what: str, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> str:
    return f"the network has no {what} {name!r};{did_you_mean(name, known)} it has: {', '.join(known)}"
