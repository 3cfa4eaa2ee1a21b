"""ElasticCTRAPI: ElasticCTR's Python client, for programs that were written for it.

It speaks ElasticCTR's HTTP form, /ElasticCTRPredictionService/inference. As ElasticCTR's client does, it fills slots
that an instance does not have with [0]. New programs use clickline.Client, which sends raw values and reports which
version answered.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import msgspec

from clickline.client.client import Client

_PATH = "/ElasticCTRPredictionService/inference"
Feasigns = dict[str, list[int]]
"""The feasigns of one instance, by slot."""


class InferenceAnswer(TypedDict, total=False):
    """ElasticCTR's answer: for each instance {"prob0", "prob1"}, or what is wrong."""

    predictions: list[dict[str, float]]
    err_code: int
    err_msg: str


class ElasticCTRAPI:
    """One client per thread: instances are collected in it until they are asked for."""

    def __init__(self, ip: str, port: int | str, *, token: str | None = None, timeout: float = 20.0) -> None:
        host = f"[{ip}]" if ":" in ip else ip
        self._client = Client(f"http://{host}:{port}", token=token, timeout=timeout)
        self._slots: list[str] = []
        self._instances: list[Feasigns] = []

    def read_slots_conf(self, slots_conf_file: str | Path) -> int:
        """Which slots there are: a file with one on each line. 0, or -1 if it cannot be read."""
        try:
            lines = Path(slots_conf_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            print(f"{slots_conf_file}: {error}", file=sys.stderr)  # as ElasticCTR's client does; programs test for -1
            return -1
        self._slots = [line.strip() for line in lines if line.strip()]
        return 0

    def add_instance(self) -> Feasigns:
        """A new instance, to be filled by `add_slot`."""
        instance: Feasigns = {}
        self._instances.append(instance)
        return instance

    def add_slot(self, instance: Feasigns, slot_name: str | int, feasigns: Sequence[int]) -> int:
        """0, or -1 for a slot that the conf does not list."""
        name = str(slot_name)
        if self._slots and name not in self._slots:
            known = ", ".join(self._slots[:20])
            print(f"slot '{name}' is not in the slot conf; it lists {known}", file=sys.stderr)
            return -1
        instance.setdefault(name, []).extend(int(feasign) for feasign in feasigns)
        return 0

    def inference(self) -> InferenceAnswer:
        """The server's answer. Instances stay until `clear`."""
        answer: InferenceAnswer = self._client.post(_PATH, self._body())
        return answer

    def clear(self) -> None:
        """Forget the instances; what slots there are stays known."""
        self._instances = []

    def close(self) -> None:
        """Close the connection; ElasticCTR's client has no such call, and nothing breaks without it."""
        self._client.close()

    def _body(self) -> bytes:
        # Every instance must name the same slots; without a conf, those that any of them has.
        slots = self._slots or list(dict.fromkeys(name for instance in self._instances for name in instance))
        instances = [
            {"slots": [{"slot_name": name, "feasigns": instance.get(name) or [0]} for name in slots]}
            for instance in self._instances
        ]
        return msgspec.json.encode({"instances": instances})
