"""The messages: made from the .proto as it is, and with the same numbers as everybody else's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tritonclient.grpc.service_pb2 as theirs

from clickline.net.protos import generate
from clickline.net.protos import open_inference_pb2 as ours


def test_the_python_is_what_the_proto_gives(tmp_path: Path) -> None:
    for made in generate.generate(tmp_path):
        kept = generate.HERE / made.name
        same = kept.read_text(encoding="utf-8") == made.read_text(encoding="utf-8")
        assert same, "run python -m clickline.net.protos.generate"


def fields(message: Any, prefix: str = "") -> dict[str, tuple[int, int, bool]]:
    found = {f"{prefix}{one.name}": (one.number, one.type, one.is_repeated) for one in message.fields}
    for nested in message.nested_types:
        found |= fields(nested, f"{prefix}{nested.name}.")
    return found


def test_numbers_and_types_are_those_of_another_implementation() -> None:
    compared = 0
    for name, message in ours.DESCRIPTOR.message_types_by_name.items():
        mine, other = fields(message), fields(theirs.DESCRIPTOR.message_types_by_name[name])
        assert {field: other.get(field) for field in mine} == mine, name
        compared += len(mine)
    assert compared > 50
    service = ours.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    known = theirs.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    assert service.full_name == "inference.GRPCInferenceService"
    for method in service.methods:
        assert known[method.name].input_type.full_name == method.input_type.full_name


def test_both_live_in_one_process() -> None:
    assert ours.ModelInferRequest.DESCRIPTOR.full_name == theirs.ModelInferRequest.DESCRIPTOR.full_name
    sent = theirs.ModelInferRequest(model_name="ctr", raw_input_contents=[b"abc"]).SerializeToString()
    assert ours.ModelInferRequest.FromString(sent).raw_input_contents == [b"abc"]
