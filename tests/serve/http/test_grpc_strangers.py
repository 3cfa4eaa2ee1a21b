"""gRPC calls without the token, against a worker with a real model: their messages are not received, they cannot take
the threads of others, and a connection that has shown the token is not closed in favour of those that have not."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any, Self

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clickline.client.payloads import infer_request
from clickline.net.protos import open_inference_pb2 as messages
from clickline.serve.http.http2_frames import PREFACE, FrameHeads, OpenCalls
from clickline.serve.protocols.grpc_service import SERVICE
from support.eventually import eventually
from support.serving.predictor_worker import TOKEN, PredictorWorker
from support.versions.model_versions import TOLERANCE, ModelVersions

Record = Callable[[str, object], None]
SHOWN = (("authorization", f"Bearer {TOKEN}"),)
UNKNOWN_FIELD = b"\xfa\x7f\x80\x80\x80\x06" + b"x" * (12 << 20)
"""A message of any kind: field 2047 with twelve MiB."""
WINDOW = 256 << 10
"""What HTTP/2 lets a client send before anybody has asked for it, generously."""
FEW = 16


class CountingProxy:
    """Between a client and the worker: how often somebody connected, and how much the worker took."""

    def __init__(self, port: int) -> None:
        self._port, self._listener = port, socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = self.taken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                outer, _ = self._listener.accept()
                self.connections += 1
                inner = socket.create_connection(("127.0.0.1", self._port))
                for source, sink, counted in ((outer, inner, True), (inner, outer, False)):
                    threading.Thread(target=self._pass, args=(source, sink, counted), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
                self.taken += len(data) if counted else 0
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()


@pytest.fixture(scope="module")
def worker(versions: ModelVersions, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PredictorWorker]:
    limits = {"unauthenticated": FEW, "timeout": 30.0}
    with PredictorWorker(tmp_path_factory.mktemp("grpc"), versions.path, public=True, limits=limits) as made:
        yield made


def ask(channel: grpc.Channel, name: str, request: Any, **options: Any) -> Any:
    call = channel.unary_unary(
        f"/{SERVICE}/{name}",
        request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
        response_deserializer=getattr(messages, f"{name}Response").FromString,
    )
    return call(request, **{"timeout": 30.0, **options})


def infers_rightly(channel: grpc.Channel, versions: ModelVersions) -> None:
    answer = ask(channel, "ModelInfer", infer_request(versions.instances[:5], model="ctr"), metadata=SHOWN)
    found = np.frombuffer(answer.raw_output_contents[0], "<f4")
    np.testing.assert_allclose(found, versions.expected(1)[:5], rtol=0, atol=TOLERANCE)


def test_a_message_without_the_token_is_not_received(worker: PredictorWorker, versions: ModelVersions) -> None:
    with CountingProxy(worker.port) as proxy, grpc.insecure_channel(proxy.address) as channel:
        for name in ("ModelInfer", "ModelMetadata", "ServerMetadata"):
            with pytest.raises(grpc.RpcError) as caught:
                ask(channel, name, UNKNOWN_FIELD)
            assert caught.value.code().name == "UNAUTHENTICATED"
        assert ask(channel, "ServerLive", UNKNOWN_FIELD).live
        assert ask(channel, "ServerReady", UNKNOWN_FIELD).ready
        assert proxy.taken < 6 * WINDOW
        assert ask(channel, "ModelReady", messages.ModelReadyRequest(name="ctr")).ready
        infers_rightly(channel, versions)


def test_calls_without_the_token_do_not_take_the_threads_of_others(
    worker: PredictorWorker, versions: ModelVersions, record_property: Record
) -> None:
    """Forty calls that are begun and never sent to their end; two of them may wait, those with the token go on."""
    over = threading.Event()

    def never() -> Iterator[bytes]:
        over.wait()
        yield from ()

    with grpc.insecure_channel(f"127.0.0.1:{worker.port}") as strange, ExitStack() as stack:
        stack.callback(over.set)
        begin = strange.stream_unary(f"/{SERVICE}/ModelReady")
        calls = [begin.future(never(), timeout=60.0) for _ in range(40)]
        eventually(lambda: sum(call.done() for call in calls) == 38, what="all but two refused")
        refused = [call for call in calls if call.done()]
        assert {call.code().name for call in refused} == {"RESOURCE_EXHAUSTED"}
        assert dict(refused[0].trailing_metadata())["retry-after"] == "1"
        with grpc.insecure_channel(f"127.0.0.1:{worker.port}") as channel:
            for _ in range(5):
                infers_rightly(channel, versions)
        for call in calls:
            call.cancel()
    record_property("hostile clients", {"calls": 40})


def test_a_connection_that_has_shown_the_token_is_kept(worker: PredictorWorker, versions: ModelVersions) -> None:
    with CountingProxy(worker.port) as proxy, grpc.insecure_channel(proxy.address) as channel, ExitStack() as stack:
        infers_rightly(channel, versions)
        for _ in range(4 * FEW):
            stack.enter_context(worker.connect()).sendall(PREFACE)
        eventually(lambda: worker.status()["connections"] <= FEW + 5, what="most of the strangers closed")
        infers_rightly(channel, versions)
        assert proxy.connections == 1


def test_a_call_that_is_not_sent_to_its_end_is_given_up(versions: ModelVersions, tmp_path: Any) -> None:
    """Also one with the token: its connection is closed, and its thread is free again."""
    timing = {"body": 0.5}
    with PredictorWorker(tmp_path, versions.path, public=True, timing=timing) as worker, ExitStack() as stack:
        over = threading.Event()
        stack.callback(over.set)

        def never() -> Iterator[bytes]:
            over.wait()
            yield from ()

        calls = []
        for _ in range(20):  # more than there are threads
            channel = stack.enter_context(grpc.insecure_channel(f"127.0.0.1:{worker.port}"))
            calls.append(channel.stream_unary(f"/{SERVICE}/ModelInfer").future(never(), metadata=SHOWN))
        assert {call.code().name for call in calls} == {"UNAVAILABLE"}
        with grpc.insecure_channel(f"127.0.0.1:{worker.port}") as channel:
            infers_rightly(channel, versions)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


frames = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=40)), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(frames, st.lists(st.integers(0, 500), max_size=10))
def test_heads_of_frames_are_found_however_they_are_cut(
    wanted: list[tuple[int, int, int, bytes]], cuts: list[int]
) -> None:
    data = PREFACE + b"".join(frame(*one) for one in wanted)
    bounds = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    heads, found = FrameHeads(skip=len(PREFACE)), []
    for start, end in pairwise(bounds):
        found += heads.feed(data[start:end])
    assert found == [one[:3] for one in wanted]


def test_calls_are_open_until_either_side_ends_them() -> None:
    calls = OpenCalls()
    calls.client_sent(PREFACE + frame(4, 0, 0) + frame(1, 4, 1, b"head") + frame(0, 0, 1, b"body"), 5.0)
    calls.client_sent(frame(1, 4, 3, b"head"), 6.0)
    assert (calls.calls, calls.oldest) == (2, 5.0)
    calls.client_sent(frame(0, 1, 1, b"end"), 7.0)
    assert calls.oldest == 6.0
    calls.server_sent(frame(1, 4, 3, b"head") + frame(0, 0, 3, b"answer"))
    assert calls.oldest == 6.0
    calls.server_sent(frame(1, 5, 3, b"trailers"))
    assert calls.oldest is None
    calls.client_sent(frame(1, 4, 5, b"head"), 8.0)
    calls.server_sent(frame(3, 0, 5, b"code"))
    assert calls.oldest is None
    calls.client_sent(b"".join(frame(1, 4, 2 * n + 7) for n in range(5000)), 9.0)
    assert calls.too_many
