"""The load generator over gRPC: one thread and one channel for every connection, since its calls block."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from clickline.client.load.http_load import LoadPlan, LoadResult, OnProgress
from clickline.client.payloads import Prediction
from clickline.errors import PeerError

if TYPE_CHECKING:
    from clickline.client.http_requests import ServerAddress

_SERVICE = "/inference.GRPCInferenceService/"
_NEVER = -1.0
_OPTIONS = (("grpc.use_local_subchannel_pool", 1),)  # else all channels to one address share a connection


class GrpcLoad:
    """One run over gRPC. `requests`: each with its number of rows."""

    def __init__(
        self,
        address: ServerAddress,
        requests: Sequence[tuple[Any, int]],
        load: LoadPlan,
        *,
        token: str | None = None,
    ) -> None:
        if address.secure:
            raise PeerError("the load generator speaks gRPC without TLS only; measure another --protocol over https")
        self._address, self._requests, self._load = address, requests, load
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._lock = threading.Lock()
        self._issued, self._due = 0, load.due()
        self._began = self._end = 0.0
        self.result = LoadResult()

    def run(self, on_progress: OnProgress | None = None) -> LoadResult:
        """As HttpLoad.run."""
        load = self._load
        if load.requests is None and load.seconds is None:
            raise ValueError("a load needs requests or seconds, or it never ends")
        # The clock starts when the last connection has warmed up: `_begin` runs before any thread passes the barrier.
        ready = threading.Barrier(load.connections + 1, action=self._begin)
        failed: list[str] = []
        workers = [
            threading.Thread(target=self._work, args=(number, ready, failed), daemon=True)
            for number in range(load.connections)
        ]
        for worker in workers:
            worker.start()
        try:
            ready.wait()
        except threading.BrokenBarrierError:
            raise PeerError(f"{self._address} does not answer over gRPC: {failed[0]}") from None
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.05)
            if on_progress is not None:
                done = self.result.done
                on_progress(done, load.share(done, time.perf_counter() - self._began))
        self.result.seconds = time.perf_counter() - self._began
        return self.result

    def _work(self, number: int, ready: threading.Barrier, failed: list[str]) -> None:
        import grpc

        from clickline.net.protos import open_inference_pb2 as messages

        with grpc.insecure_channel(self._address.authority, options=_OPTIONS) as channel:
            infer = channel.unary_unary(
                f"{_SERVICE}ModelInfer",
                request_serializer=messages.ModelInferRequest.SerializeToString,
                response_deserializer=messages.ModelInferResponse.FromString,
            )
            try:
                self._infer(infer, number)
            except Exception as error:
                why = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.RpcError) else str(error)
                # Before the abort, which wakes `run`: it reads `failed[0]`.
                failed.append(why)
                ready.abort()
                return
            try:
                ready.wait()
            except threading.BrokenBarrierError:  # another connection failed
                return
            self._loop(infer)

    def _begin(self) -> None:
        self._began = time.perf_counter()
        self._end = self._began + (self._load.seconds if self._load.seconds is not None else float("inf"))

    def _loop(self, infer: Any) -> None:
        import grpc

        while (taken := self._next()) is not None:
            number, since = taken
            if since == _NEVER:
                continue
            time.sleep(max(0.0, since - time.perf_counter()))
            try:
                prediction = self._infer(infer, number)
            except grpc.RpcError as error:
                trailers = dict(error.trailing_metadata() or ())
                reason = trailers.get("clickline-reason", error.code().name.lower())
                self._failed(str(reason))
                continue
            except (IndexError, ValueError):
                self._failed("no_prediction")
                continue
            seconds = time.perf_counter() - since
            with self._lock:
                self.result.answered(prediction, seconds, self._requests[number % len(self._requests)][1])

    def _failed(self, reason: str) -> None:
        with self._lock:
            self.result.errors[reason] += 1

    def _next(self) -> tuple[int, float] | None:
        """Number of the next request, and when it is due; None at the end. A thread that was busy may be late for
        it."""
        # The lock also covers the generator of due times, which two threads must not advance at once.
        with self._lock:
            if self._load.requests is not None and self._issued >= self._load.requests:
                return None
            now = time.perf_counter()
            since = self._began + next(self._due) if self._load.rate else now
            if since >= self._end:
                return None
            self._issued += 1
            # If the server cannot keep up, many requests are overdue at the end: they are counted without being sent,
            # or the run would not end in time.
            if now > self._end + self._load.timeout:
                self.result.errors["never_sent"] += 1
                return self._issued - 1, _NEVER
            return self._issued - 1, since

    def _infer(self, infer: Any, number: int) -> Prediction:
        request, _ = self._requests[number % len(self._requests)]
        answer = infer(request, timeout=self._load.timeout, metadata=self._metadata)
        values = np.frombuffer(answer.raw_output_contents[0], "<f4")
        return Prediction(values[: answer.outputs[0].shape[0]].tolist(), int(answer.model_version), answer.model_name)
