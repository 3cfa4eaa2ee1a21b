"""A predictor: models by name, and the way of a request through them. Protocols are built on top of it.

    chosen = predictor.choose("ctr")                                    # one version, kept to the end
    question = chosen.loaded.reader.from_json(body, most_rows=4096)
    answer = predictor.ask(chosen, question)                            # or submit(chosen, question, done=…)

The version is chosen once, when a request comes, and the request is read, looked up and computed with that one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from time import perf_counter
from types import TracebackType
from typing import Any, Self

from clickline.config.loading.suggestions import suggestion
from clickline.cube.cube_client import Cube
from clickline.errors import JobError
from clickline.net.request_errors import RequestError, refuse
from clickline.serve.metrics.counters import series
from clickline.serve.metrics.metric_sink import MetricSink, NoMetrics
from clickline.serve.metrics.request_series import RequestSeries, series_of
from clickline.serve.prediction import PredictionInput, PredictionResult
from clickline.serve.predictor.batcher import Batcher
from clickline.serve.predictor.model_version import CacheSizes, Loaded
from clickline.serve.predictor.queued_request import Again, Done, Item
from clickline.serve.predictor.request_cache import CacheKey
from clickline.serve.predictor.served_model import Served
from clickline.serve.predictor.shadow_comparison import ShadowComparison
from clickline.serve.predictor.traffic_split import Shadow, Split
from clickline.serve.serve_settings import CubeSource, Limits, ServeConfig
from clickline.versions.store import open_store
from clickline.versions.version_cache import VersionCache

_GRACE = 10.0
"""Seconds beyond its timeout that `ask` waits for a request that is being computed."""
_SHADOWS = Limits(queue=64)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Who answers a request."""

    loaded: Loaded
    model: str
    """The one that answers, be it as a variant of a split."""
    tag: str
    """Of the variant; empty if nothing is split."""
    shadow: Served | None
    """Who is asked as well."""
    served: Served
    series: RequestSeries
    """Of the metrics."""
    pinned: bool = False
    """Whether the version was asked for by its number."""


class Predictor:
    """Models, splits and shadows. Everything may be called from any thread."""

    def __init__(
        self,
        models: Mapping[str, Served],
        *,
        splits: Mapping[str, Split] | None = None,
        shadows: Mapping[str, Shadow] | None = None,
        default: str = "",
        limits: Limits | None = None,
        threads: int = 1,
        counts: MetricSink | None = None,
    ) -> None:
        """Begins to look for versions; see `ready`. `default` is the model or split of requests that name none."""
        self.models = dict(models)
        self.limits = Limits() if limits is None else limits
        self._splits, self._shadows = dict(splits or {}), dict(shadows or {})
        self._default = default or (next(iter(self.models)) if len(self.names) == 1 else "")
        self._counts: MetricSink = NoMetrics() if counts is None else counts
        self._batcher = Batcher(self.limits, threads=threads, counts=self._counts)
        self._shadow_batcher = Batcher(_SHADOWS, name="shadows") if self._shadows else None
        for served in self.models.values():
            served.start()

    @classmethod
    def of(
        cls, config: ServeConfig, *, token: bytes = b"", counts: MetricSink | None = None, on_loop: bool = False
    ) -> Self:
        """As configured. The token is for cubes. `on_loop`: somebody will `attach` a loop, if it is to compute."""
        models = {}
        for name, source in config.models.items():
            cube = None if source.cube is None else _connect(source.cube, token, name)
            store = open_store(source.store)
            models[name] = Served(
                name,
                store,
                cache=VersionCache.of(store),
                cube=cube,
                failure="error" if source.cube is None else source.cube.failure,
                interval=source.interval,
                keep=source.keep,
                caches=CacheSizes(0 if source.cube is None else source.cube.row_cache, source.request_cache),
                threads=config.network_threads,
                counts=counts,
            )
        return cls(
            models,
            splits={name: Split.of(name, rule) for name, rule in config.splits.items()},
            shadows={name: Shadow(rule.model, rule.share) for name, rule in config.shadows.items()},
            default=config.default_model,
            limits=config.limits,
            # Waiting for more requests to come would keep a loop from reading them.
            threads=config.threads or (0 if on_loop and not config.limits.delay else 1),
            counts=counts,
        )

    def attach(self, wake: Callable[[Callable[[], None]], None]) -> None:
        """Without threads of its own, batches are computed by whoever `wake` tells to; it may be called by any."""
        self._batcher.attach(partial(wake, self._batcher.compute))

    @property
    def names(self) -> list[str]:
        """What can be asked for: splits and models."""
        return list(dict.fromkeys([*self._splits, *self.models]))

    def choose(self, model: str | None = None, *, version: int | None = None, key: str | int | None = None) -> Chosen:
        """The version that answers. `key` decides among the variants of a sticky split."""
        name, tag = model or self._default, ""
        if not name:
            raise refuse("unknown_model", f"which model? There are: {', '.join(self.names)}")
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
        return Chosen(served.loaded(version), name, tag, copied, served, series_of(name, tag), version is not None)

    def submit(
        self,
        chosen: Chosen,
        question: PredictionInput,
        *,
        done: Done,
        timeout: float | None = None,
        again: Again | None = None,
        cache_key: CacheKey | None = None,
    ) -> None:
        """Queue a question. `done` is called once, by a thread of the batcher, with the answer or the error.

        Raises RequestError at once if it is not even queued (overloaded, draining); `done` is not called then. `again`
        reads the request by the features of another version, should that have to answer it. With `cache_key` the answer
        is kept for `cached`, by the version that gives it.
        """
        now = perf_counter()
        deadline = now + (self.limits.timeout if timeout is None else timeout)
        if chosen.shadow is not None:
            done = partial(self._then_shadow, chosen, question, done, again)
        self._batcher.submit(
            Item(
                chosen.loaded,
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

    def cached(self, chosen: Chosen, key: CacheKey) -> tuple[PredictionResult, int] | None:
        """What the chosen version answered to the same request before, and how many values that lacked."""
        cache = chosen.loaded.requests
        if cache is None:
            return None
        found = cache.get(key)
        self._counts.count(
            "clickline_request_cache_total", 1.0, series(chosen.model, "miss" if found is None else "hit")
        )
        if found is None:
            return None
        loaded = chosen.loaded
        return PredictionResult(
            found.probability, loaded.version, chosen.model, chosen.tag, loaded.labels
        ), found.missing

    def ask(
        self, chosen: Chosen, question: PredictionInput, timeout: float | None = None, *, again: Again | None = None
    ) -> PredictionResult:
        """Wait for the answer. Raises RequestError."""
        box: SimpleQueue[PredictionResult | RequestError] = SimpleQueue()
        seconds = self.limits.timeout if timeout is None else timeout
        self.submit(chosen, question, done=box.put, timeout=seconds, again=again)
        try:
            result = box.get(timeout=seconds + _GRACE)
        except Empty:
            raise refuse("timeout", f"no answer within {seconds + _GRACE:g} s") from None
        if isinstance(result, RequestError):
            raise result
        return result

    def ready(self) -> bool:
        """Whether every model has a version that is complete."""
        return all(served.current is not None for served in self.models.values())

    def status(self) -> dict[str, Any]:
        return {
            "ready": self.ready(),
            "default": self._default or None,
            "models": {name: served.status() for name, served in self.models.items()},
            "splits": {
                name: [{"model": one.model, "weight": one.weight, "tag": one.tag} for one in split.variants]
                for name, split in self._splits.items()
            },
            "shadows": {name: {"model": one.model, "share": one.share} for name, one in self._shadows.items()},
            "waiting": self._batcher.waiting,
        }

    def drain(self, seconds: float) -> bool:
        """Take no more requests, and wait for those that are here. Whether all were answered."""
        return self._batcher.drain(seconds)

    def close(self) -> None:
        """Ends all threads; requests that still wait are refused."""
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
        chosen: Chosen,
        question: PredictionInput,
        done: Done,
        again: Again | None,
        result: PredictionResult | RequestError,
    ) -> None:
        """The answer first; what the shadow makes of it is only compared with it, and counted."""
        done(result)
        shadow, batcher = chosen.shadow, self._shadow_batcher
        assert shadow is not None and batcher is not None  # noqa: S101  (`submit` asks)
        comparison = ShadowComparison(chosen.model, shadow.name, result, self._counts)
        try:
            loaded = shadow.loaded()
            if not loaded.schema.same_features(chosen.loaded.schema):
                if again is None:
                    raise refuse("wrong_shape", f"model {shadow.name} has other features")
                question = again(loaded.reader)
            now = perf_counter()
            deadline = now + self.limits.timeout
            own = series_of(shadow.name)
            batcher.submit(Item(loaded, question, comparison.done, shadow, own, now, deadline, False, again))
        except RequestError as error:
            comparison.done(error)


def _connect(source: CubeSource, token: bytes, name: str) -> Cube:
    if not token:
        raise JobError(f"models.{name}.cube: a cube needs a token; set CLICKLINE_TOKEN in the environment")
    return Cube.connect(
        source.servers,
        token=token,
        name=source.name,
        timeout=source.timeout,
        hedge=source.hedge,
        retries=source.retries,
    )
