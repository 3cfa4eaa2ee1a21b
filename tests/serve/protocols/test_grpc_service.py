"""The gRPC service, asked by tritonclient, a client from elsewhere, and by plain calls for what that cannot send."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from clickline import PeerError
from clickline.client.payloads import infer_request
from clickline.net.protos import open_inference_pb2 as messages
from clickline.net.request_errors import REASONS, refuse
from clickline.serve.protocols.grpc_server import start_grpc
from clickline.serve.protocols.grpc_service import SERVICE
from clickline.serve.serve_settings import ServeLimits
from support.doubles.grpc_double import AskedDouble, values_of

TOKEN = b"a-token-of-the-tests"


@pytest.fixture
def asked() -> AskedDouble:
    return AskedDouble()


@pytest.fixture
def address(asked: AskedDouble) -> Iterator[str]:
    server = start_grpc(asked, "127.0.0.1:0", limits=ServeLimits(rows=100, body=1 << 20, queue=8, timeout=5.0))
    yield server.address
    server.stop(0)


@pytest.fixture
def client(address: str) -> Iterator[triton.InferenceServerClient]:
    with triton.InferenceServerClient(address) as made:
        yield made


def tensor(name: str, values: Any, datatype: str) -> triton.InferInput:
    array = np.array(values, object if datatype == "BYTES" else None)
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def call(address: str, name: str, request: Any, **options: Any) -> Any:
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
            response_deserializer=getattr(messages, f"{name}Response").FromString,
        )
        return ask(request, **{"timeout": 10.0, **options})


def refused(address: str, name: str, request: Any, **options: Any) -> tuple[str, str, dict[str, str]]:
    with pytest.raises(grpc.RpcError) as caught:
        call(address, name, request, **options)
    return caught.value.code().name, caught.value.details(), dict(caught.value.trailing_metadata() or ())


def test_a_client_from_elsewhere_infers(client: triton.InferenceServerClient, asked: AskedDouble) -> None:
    inputs = [tensor("I1", np.array([3, 25], np.int64), "INT64"), tensor("C1", [b"68fd1e64", b"\xff\x00"], "BYTES")]
    result = client.infer("ctr", inputs, request_id="one", outputs=[triton.InferRequestedOutput("probability")])
    assert result.as_numpy("probability") == pytest.approx(np.array([[0.03], [0.25]]))
    response = result.get_response()
    assert (response.id, response.model_name, response.model_version) == ("one", "ctr", "7")
    assert response.parameters["version"].int64_param == 7
    assert values_of(asked.reader.seen[0][1]) == [b"68fd1e64", b"\xff\x00"]


def test_health_and_metadata(client: triton.InferenceServerClient, asked: AskedDouble) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("ctr")
    assert client.is_model_ready("ctr", "7")
    about = client.get_model_metadata("ctr")
    assert (about.name, list(about.versions)) == ("ctr", ["6", "7"])
    assert {one.name for one in about.inputs} == {"I1", "C1"}
    assert [(one.name, one.datatype) for one in about.outputs] == [("probability", "FP32")]
    server = client.get_server_metadata()
    assert server.name == "clickline"
    assert "binary_tensor_data" in server.extensions
    asked.is_ready = False
    assert not client.is_server_ready()
    assert not client.is_model_ready("ctr")
    with pytest.raises(InferenceServerException, match="no model other"):
        client.is_model_ready("other")
    with pytest.raises(InferenceServerException, match="UNIMPLEMENTED"):
        client.get_inference_statistics()


CONTENTS = {
    "BOOL": ("bool_contents", [True, False]),
    "INT8": ("int_contents", [-128, 127]),
    "INT16": ("int_contents", [-5, 300]),
    "INT32": ("int_contents", [-5, 2**31 - 1]),
    "INT64": ("int64_contents", [-5, 2**62]),
    "UINT8": ("uint_contents", [0, 255]),
    "UINT16": ("uint_contents", [0, 65535]),
    "UINT32": ("uint_contents", [0, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 2**64 - 1]),
    "FP32": ("fp32_contents", [0.5, -1.25]),
    "FP64": ("fp64_contents", [0.1, 1e300]),
    "BYTES": ("bytes_contents", [b"", b"\x00ab"]),
}


@pytest.mark.parametrize("datatype", CONTENTS)
def test_typed_contents_arrive_as_sent_and_are_answered_typed(address: str, asked: AskedDouble, datatype: str) -> None:
    field, values = CONTENTS[datatype]
    request = messages.ModelInferRequest(model_name="ctr")
    one = request.inputs.add(name="C1", datatype=datatype, shape=[2])
    getattr(one.contents, field).extend(values)
    answer = call(address, "ModelInfer", request)
    assert values_of(asked.reader.seen[0][0]) == values
    assert list(answer.outputs[0].contents.fp32_contents) == [0, 0]
    assert not answer.raw_output_contents


def test_raw_contents_are_answered_raw(address: str) -> None:
    answer = call(address, "ModelInfer", infer_request([{"I1": 3}, {"I1": 4}], model="ctr"))
    assert np.frombuffer(answer.raw_output_contents[0], "<f4").tolist() == pytest.approx([0.03, 0.04])
    assert list(answer.outputs[0].shape) == [2, 1]


def wrong_field() -> Any:
    request = messages.ModelInferRequest(model_name="ctr")
    request.inputs.add(name="C1", datatype="INT64", shape=[1]).contents.fp32_contents.append(1)
    return request


def out_of_range() -> Any:
    request = messages.ModelInferRequest(model_name="ctr")
    request.inputs.add(name="C1", datatype="INT8", shape=[1]).contents.int_contents.append(300)
    return request


def unknown_type() -> Any:
    request = messages.ModelInferRequest(model_name="ctr")
    request.inputs.add(name="C1", datatype="FP16", shape=[1]).contents.fp32_contents.append(1)
    return request


def too_few_raw() -> Any:
    request = infer_request([{"I1": 1, "C1": "a"}], model="ctr")
    del request.raw_input_contents[1:]
    return request


def both_ways() -> Any:
    request = infer_request([{"I1": 1}], model="ctr")
    request.inputs[0].contents.int64_contents.append(1)
    return request


def other_output() -> Any:
    request = infer_request([{"I1": 1}], model="ctr")
    request.outputs.add(name="logit")
    return request


@pytest.mark.parametrize(
    ("make", "code", "reason", "message"),
    [
        (wrong_field, "INVALID_ARGUMENT", "wrong_type", "belong in int64_contents, not fp32_contents"),
        (out_of_range, "INVALID_ARGUMENT", "wrong_type", "'C1' is INT8, which cannot hold 300"),
        (unknown_type, "INVALID_ARGUMENT", "wrong_type", "FP16 as raw"),
        (too_few_raw, "INVALID_ARGUMENT", "malformed", "2 inputs, but 1 raw_input_contents"),
        (both_ways, "INVALID_ARGUMENT", "malformed", "all in one way"),
        (other_output, "INVALID_ARGUMENT", "malformed", "only output is 'probability'"),
        (lambda: infer_request([{"C9": 1}], model="ctr"), "INVALID_ARGUMENT", "unknown_feature", "'C9' is no feature"),
        (lambda: infer_request([{"I1": 1}], model="no"), "NOT_FOUND", "unknown_model", "no model no"),
        (lambda: infer_request([{"I1": 1}], model="ctr", version=9), "NOT_FOUND", "unknown_version", "no version 9"),
        (lambda: infer_request([{"I1": 1}] * 101, model="ctr"), "RESOURCE_EXHAUSTED", "too_large", "at most 100"),
    ],
)
def test_what_is_wrong_is_said(address: str, make: Any, code: str, reason: str, message: str) -> None:
    found, details, trailing = refused(address, "ModelInfer", make())
    assert (found, trailing["clickline-reason"]) == (code, reason)
    assert re.search(message, details)


def test_a_version_that_is_no_number_is_unknown(address: str) -> None:
    request = infer_request([{"I1": 1}], model="ctr")
    request.model_version = "latest"
    assert refused(address, "ModelInfer", request)[:2] == (
        "NOT_FOUND",
        "'latest' is not a version: versions are numbers",
    )


def test_bytes_that_are_no_message_are_refused(address: str, client: triton.InferenceServerClient) -> None:
    code, _, _ = refused(address, "ModelInfer", b"\xff\xff\xff")
    assert code == "INTERNAL"  # grpc's own word for it
    assert client.is_server_live()


@pytest.mark.parametrize("reason", REASONS)
def test_every_reason_has_its_code(address: str, asked: AskedDouble, reason: str) -> None:
    asked.fails_with = refuse(reason, "no", 1.5 if REASONS[reason] in (429, 503) else None)
    code, details, trailing = refused(address, "ModelInfer", infer_request([{"I1": 1}], model="ctr"))
    expected = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 404: "NOT_FOUND", 405: "UNIMPLEMENTED"}
    expected |= {413: "RESOURCE_EXHAUSTED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE"}
    expected |= {504: "DEADLINE_EXCEEDED"}
    assert (code, details, trailing["clickline-reason"]) == (expected[REASONS[reason]], "no", reason)
    assert trailing.get("retry-after") == ("2" if REASONS[reason] in (429, 503) else None)


def test_a_bug_is_an_internal_error_without_its_inside(
    address: str, asked: AskedDouble, caplog: pytest.LogCaptureFixture
) -> None:
    asked.fails_with = ZeroDivisionError("a secret")
    code, details, _ = refused(address, "ModelInfer", infer_request([{"I1": 1}], model="ctr"))
    assert code == "INTERNAL"
    assert "secret" not in details
    assert "a secret" in caplog.text


def test_the_callers_deadline_is_the_predictors(address: str, asked: AskedDouble) -> None:
    call(address, "ModelInfer", infer_request([{"I1": 1}], model="ctr"), timeout=2.0)
    call(address, "ModelInfer", infer_request([{"I1": 1}], model="ctr"), timeout=None)
    assert 0 < asked.timeouts[0] < 2.5  # gRPC rounds it up on its way
    assert asked.timeouts[1] == 5.0
    asked.goes_on.clear()
    code, _, _ = refused(address, "ModelInfer", infer_request([{"I1": 1}], model="ctr"), timeout=0.2)
    assert code == "DEADLINE_EXCEEDED"


def test_the_key_reaches_the_split_and_the_tag_comes_back(address: str, asked: AskedDouble) -> None:
    request = infer_request([{"I1": 1}], model="ctr")
    request.parameters["key"].string_param = "user 5"
    assert call(address, "ModelInfer", request).parameters["tag"].string_param == "b"
    request.parameters["key"].int64_param = 5
    call(address, "ModelInfer", request)
    assert asked.keys == ["user 5", "5"]


def test_a_message_above_the_limit_is_refused(address: str) -> None:
    request = infer_request([{"C1": "x" * (1 << 20)}], model="ctr")
    assert refused(address, "ModelInfer", request)[0] == "RESOURCE_EXHAUSTED"


def test_compressed_messages_are_refused_unopened(address: str) -> None:
    request = infer_request([{"C1": "x" * (1 << 16)}], model="ctr")
    code, _, _ = refused(address, "ModelInfer", request, compression=grpc.Compression.Gzip)
    assert code == "UNIMPLEMENTED"


def test_too_many_calls_at_once_are_refused_and_the_others_answered(address: str, asked: AskedDouble) -> None:
    asked.goes_on.clear()
    request = infer_request([{"I1": 1}], model="ctr")
    codes: list[str] = []
    lock = threading.Lock()

    def ask(_: int) -> None:
        try:
            call(address, "ModelInfer", request)
            code = "OK"
        except grpc.RpcError as error:
            code = error.code().name
        with lock:
            codes.append(code)
            if len(codes) >= 16:  # what is refused comes back first
                asked.goes_on.set()

    with ThreadPoolExecutor(40) as pool:
        list(pool.map(ask, range(40)))
    assert codes.count("RESOURCE_EXHAUSTED") == 16
    assert codes.count("OK") == 24


def test_a_token_is_asked_for_except_for_health(asked: AskedDouble) -> None:
    server = start_grpc(asked, "127.0.0.1:0", token=TOKEN, limits=ServeLimits())
    try:
        address = server.address
        assert call(address, "ServerReady", messages.ServerReadyRequest()).ready
        assert call(address, "ModelReady", messages.ModelReadyRequest(name="ctr")).ready
        request = infer_request([{"I1": 1}], model="ctr")
        for shown in ((), (("authorization", "Bearer wrong"),), (("authorization", TOKEN.decode()),)):
            code, _, trailing = refused(address, "ModelInfer", request, metadata=shown)
            assert (code, trailing["clickline-reason"]) == ("UNAUTHENTICATED", "unauthorised")
        assert refused(address, "ModelMetadata", messages.ModelMetadataRequest(name="ctr"))[0] == "UNAUTHENTICATED"
        assert not asked.reader.seen
        shown = (("authorization", f"Bearer {TOKEN.decode()}"),)
        assert call(address, "ModelInfer", request, metadata=shown).model_version == "7"
    finally:
        server.stop(0)


def test_it_serves_on_a_unix_socket(asked: AskedDouble, tmp_path: Path) -> None:
    server = start_grpc(asked, str(tmp_path / "grpc.sock"), limits=ServeLimits())
    answer = call(f"unix:{tmp_path}/grpc.sock", "ModelInfer", infer_request([{"I1": 5}], model="ctr"))
    server.stop(0)
    assert np.frombuffer(answer.raw_output_contents[0], "<f4").tolist() == pytest.approx([0.05])


def test_an_address_that_is_taken_is_an_error(asked: AskedDouble) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(PeerError, match=f"cannot listen on {address}"):
            start_grpc(asked, address, limits=ServeLimits())


def test_stopping_lets_calls_finish(asked: AskedDouble) -> None:
    server = start_grpc(asked, "127.0.0.1:0", limits=ServeLimits(timeout=10.0))
    asked.goes_on.clear()
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(call, server.address, "ModelInfer", infer_request([{"I1": 5}], model="ctr"))
        while not asked.timeouts:
            assert not running.done()
        stopping = pool.submit(server.stop, 10.0)
        asked.goes_on.set()
        assert running.result().model_version == "7"
        stopping.result()
