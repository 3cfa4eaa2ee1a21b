"""The predictor: models by name, and the path of a request through them. Protocols are built on top of it.

    chosen = predictor.choose("ctr")                                    # one version, kept to the end
    question = chosen.model_version.reader.from_json(body, most_rows=4096)
    result = predictor.ask(chosen, question)                            # or submit(chosen, question, done=…)

The version is chosen once, when a request comes, and the request is read, looked up and computed with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Self

from clickline.config.loading.suggestions import suggestion
from clickline.net.predictor_documents import PredictorStatus
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.metrics.request_series import RequestSeries, series_of
from clickline.serve.prediction import CacheKey, OnResult, Outcome, PredictionInput, PredictionResult, ReadAgain
from clickline.serve.predictor.batcher import Batcher
from clickline.serve.predictor.model_version import ModelVersion
from clickline.serve.predictor.queued_request import QueuedRequest
from clickline.serve.predictor.served_model import ServedModel
from clickline.serve.predictor.shadow_comparison import ShadowComparison
from clickline.serve.predictor.traffic_split import Shadow, Split
from clickline.serve.serve_settings import ServeLimits

_GRACE = 10.0
"""Seconds beyond its timeout that `ask` waits for a request that is being computed."""
_SHADOWS = ServeLimits(queue=64)


@dataclass(frozen=True, slots=True)
class ChosenVersion:
    """The version that answers a request; a VersionChoice."""

    model_version: ModelVersion
    model: str
    """Name of the model that answers, be it as a variant of a split."""
    tag: str
    """Tag of the variant; empty if nothing is split."""
    shadow: ServedModel | None
    """Another model that is given the request as well."""
    served: ServedModel
    series: RequestSeries
    """Labels of the metrics."""
    pinned: bool = False
    """Whether the version was asked for by its number."""


class Predictor:
    """Models, splits and shadows. Any thread may call any method."""

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        *,
        splits: Mapping[str, Split] | None = None,
        shadows: Mapping[str, Shadow] | None = None,
        default: str = "",
        limits: ServeLimits | None = None,
        threads: int = 1,
        counts: MetricSink | None = None,
    ) -> None:
        """Starts to poll for versions; see `ready`. `default` is the model or split of requests that name none."""
        self.models = dict(models)
        self.limits = ServeLimits() if limits is None else limits
        self._splits, self._shadows = dict(splits or {}), dict(shadows or {})
        self._default = default or (next(iter(self.models)) if len(self.names) == 1 else "")
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._batcher = Batcher(self.limits, threads=threads, counts=self._counts)
        # A queue and a thread of its own: a shadow that hangs fills these 64 places and delays no request.
        self._shadow_batcher = Batcher(_SHADOWS, name="shadows") if self._shadows else None
        for served in self.models.values():
            served.start()

    def attach(self, wake: Callable[[Callable[[], None]], None]) -> None:
        """Without threads of its own, batches are computed by an event loop: `wake`, called by any thread, has the loop
        call what it is given."""
        self._batcher.attach(partial(wake, self._batcher.compute))

    @property
    def names(self) -> list[str]:
        """What requests can name: splits and models."""
        return list(dict.fromkeys([*self._splits, *self.models]))

    def choose(
        self, model: str | None = None, *, version: int | None = None, key: str | int | None = None
    ) -> ChosenVersion:
        """The version that answers. `key` decides among the variants of a sticky split."""
        name, tag = model or self._default, ""
        if not name:
            raise refuse("unknown_model", f"the request names no model; known: {', '.join(self.names)}")
        # A split may have the name of a model: with a version, which splits do not have, the model is meant.
        if (split := self._splits.get(name)) is not None and (version is None or name not in self.models):
            if version is not None:
                raise refuse("unknown_version", f"{name} is a split, whose models have versions of their own")
            variant = split.draw(key)
            name, tag = variant.model, variant.tag
        served = self.models.get(name)
        if served is None:
            raise refuse("unknown_model", f"there is no model {name}; {suggestion(name, self.names, kind='models')}")
        shadow = self._shadows.get(name)
        copied = self.models[shadow.model] if shadow is not None and shadow.draw() else None
        return ChosenVersion(
            served.model_version(version), name, tag, copied, served, series_of(name, tag), version is not None
        )

    def submit(
        self,
        chosen: ChosenVersion,
        question: PredictionInput,
        *,
        done: OnResult,
        timeout: float | None = None,
        again: ReadAgain | None = None,
        cache_key: CacheKey | None = None,
    ) -> None:
        """Queue a request. `done` is called once, by a thread of the batcher, with the result or the error.

        Raises RequestError at once if it is not even queued (overloaded, draining); `done` is not called then. `again`
        reads the request by the features of another version, should that have to answer it. With `cache_key` the result
        is kept for `cached`, by the version that computes it.
        """
        now = perf_counter()
        deadline = now + (self.limits.timeout if timeout is None else timeout)
        if chosen.shadow is not None:
            done = partial(self._then_shadow, chosen, question, done, again)
        self._batcher.submit(
            QueuedRequest(
                chosen.model_version,
                question,
                done,
                chosen.served,
                chosen.series,
                now,
                deadline,
                chosen.pinned,
                again,
                cache_key,
            )
        )
        if question.missing:
            self._counts.count("clickline_missing_values_total", question.missing)

    def cached(self, chosen: ChosenVersion, key: CacheKey) -> tuple[PredictionResult, int] | None:
        """The result of the same request before, by the chosen version, and how many values that request lacked."""
        cache = chosen.model_version.requests
        if cache is None:
            return None
        hit = cache.get(key)
        self._counts.count("clickline_request_cache_total", 1.0, series(chosen.model, "miss" if hit is None else "hit"))
        if hit is None:
            return None
        version = chosen.model_version
        result = PredictionResult(
            hit.probability, version.version, chosen.model, chosen.tag, version.labels, version.output
        )
        return result, hit.missing

    def ask(
        self,
        chosen: ChosenVersion,
        question: PredictionInput,
        timeout: float | None = None,
        *,
        again: ReadAgain | None = None,
    ) -> PredictionResult:
        """Wait for the result. Raises RequestError."""
        box: SimpleQueue[Outcome] = SimpleQueue()
        seconds = self.limits.timeout if timeout is None else timeout
        self.submit(chosen, question, done=box.put, timeout=seconds, again=again)
        try:
            result = box.get(timeout=seconds + _GRACE)
        except Empty:
            raise refuse("timeout", f"no result within {seconds + _GRACE:g} s") from None
        if isinstance(result, RequestError):
            raise result
        return result

    def ready(self) -> bool:
        """Whether every model has a version that is complete."""
        return all(served.current is not None for served in self.models.values())

    def unready_models(self) -> list[str]:
        """Names of the models that have no version yet."""
        return [name for name, served in self.models.items() if served.current is None]

    def data_times(self) -> dict[str, float]:
        """When the newest data behind the version of each model is from, in seconds since 1970."""
        times = {}
        for name, served in self.models.items():
            version = served.current
            if version is not None:
                times[name] = version.created if version.watermark is None else float(version.watermark)
        return times

    def status(self) -> PredictorStatus:
        return {
            "ready": self.ready(),
            "default": self._default or None,
            "models": {name: served.status() for name, served in self.models.items()},
            "splits": {
                name: [{"model": v.model, "weight": v.weight, "tag": v.tag} for v in split.variants]
                for name, split in self._splits.items()
            },
            "shadows": {name: {"model": s.model, "share": s.share} for name, s in self._shadows.items()},
            "waiting": self._batcher.waiting,
        }

    def drain(self, seconds: float) -> bool:
        """Accept no more requests, and wait for those that are here. Returns whether all were answered."""
        # Shadows are not waited for: no client gets their results.
        return self._batcher.drain(seconds)

    def close(self) -> None:
        """End all threads; requests that still wait are refused."""
        # Batchers first: what they still compute reads rows from cubes, which the models close.
        self._batcher.close()
        if self._shadow_batcher is not None:
            self._shadow_batcher.close()
        for served in self.models.values():
            served.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _then_shadow(
        self,
        chosen: ChosenVersion,
        question: PredictionInput,
        done: OnResult,
        again: ReadAgain | None,
        result: Outcome,
    ) -> None:
        """Pass the result on, then give the request to the shadow, whose result is only compared with it and
        counted."""
        done(result)
        shadow, batcher = chosen.shadow, self._shadow_batcher
        assert shadow is not None and batcher is not None  # noqa: S101  (`submit` checks)
        comparison = ShadowComparison(chosen.model, shadow.name, result, self._counts)
        try:
            version = shadow.model_version()
            if not version.schema.same_features(chosen.model_version.schema):
                if again is None:
                    raise refuse("wrong_shape", f"model {shadow.name} has other features")
                question = again(version.reader)
            now = perf_counter()
            deadline = now + self.limits.timeout
            own = series_of(shadow.name)
            batcher.submit(QueuedRequest(version, question, comparison.done, shadow, own, now, deadline, False, again))
        except RequestError as error:
            comparison.done(error)
