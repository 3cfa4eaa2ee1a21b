"""What a predictor is told: a YAML file, read and checked as a job is. Unknown keys are errors with a suggestion.

    models:
      ctr: {store: /data/versions/ctr}
      next: {store: /data/versions/next, cube: {servers: [["tcp:10.0.0.1:8027"]], name: next}}
    splits:
      main: {variants: [{model: ctr, weight: 9, tag: a}, {model: next, weight: 1, tag: b}], sticky: true}
    default: main

The token is no part of it: it comes from the environment (CLICKLINE_TOKEN), never from a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from clickline.config.base import Section
from clickline.config.job import NAME_PATTERN
from clickline.config.reading import read_settings
from clickline.config.suggesting import suggestion

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=128)]
Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, le=3600)]


class CubeSource(Section):
    """A cube that rows are read from."""

    servers: list[list[str]] | str
    """Addresses of the replicas of each shard, or the path of a cube.conf, whose own settings are then used."""
    name: str = ""
    """Of the dictionary."""
    timeout: Seconds = 1.0
    """Of each try."""
    hedge: Annotated[float, Field(ge=0, le=3600)] = 0.02
    """After so many seconds without an answer another replica is asked as well; 0: never."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    failure: Literal["error", "zeros"] = "error"
    """When no replica of a shard answers: fail the request, or go on with zeros and count them."""

    @field_validator("servers", mode="before")
    @classmethod
    def _are_addresses(cls, given: Any) -> Any:
        if isinstance(given, str) and given:
            return given
        if isinstance(given, list) and given and all(_are_texts(one) for one in given):
            return given
        raise PydanticCustomError(
            "cube_servers", 'must be [["tcp:HOST:PORT", …], …], replicas by shard, or the path of a cube.conf'
        )


class ModelSource(Section):
    """A model: where its versions are, and where their rows."""

    store: Text
    """Directory or URL of its versions."""
    cube: CubeSource | None = None
    """Rows come from here; without it they are looked up in the store's own files."""
    interval: Seconds = 0.5
    """Between two looks for another version."""
    keep: Annotated[int, Field(ge=1, le=100)] = 2
    """So many versions can be asked for by number, the current one included."""


class VariantWeight(Section):
    model: Name
    weight: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    tag: str = ""
    """Returned with every prediction; the model's name unless given."""


class SplitRule(Section):
    """Requests that name this are divided among models."""

    variants: Annotated[list[VariantWeight], Field(min_length=1, max_length=100)]
    sticky: bool = False
    """Requests with the same key get the same variant."""


class ShadowRule(Section):
    """Another model is asked as well, and its answers are thrown away."""

    model: Name
    share: Annotated[float, Field(gt=0, le=1)] = 1.0


class Limits(Section):
    """What a worker takes on at most."""

    rows: Annotated[int, Field(ge=1, le=1 << 20)] = 4096
    """Of one request."""
    body: Annotated[int, Field(ge=1, le=1 << 30)] = 16 << 20
    """Bytes of one request."""
    queue: Annotated[int, Field(ge=1, le=1 << 20)] = 256
    """Requests that wait; one more is refused as overloaded."""
    batch_rows: Annotated[int, Field(ge=1, le=1 << 20)] = 512
    """Rows that are computed together; a request that has more is computed alone."""
    delay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Seconds that the first request of a batch waits for more. 0: a batch is what came while the last one ran."""
    timeout: Seconds = 1.0
    """A request that has waited for so long is not computed any more."""
    connections: Annotated[int, Field(ge=1, le=1 << 20)] = 1024
    unauthenticated: Annotated[int, Field(ge=1, le=1 << 20)] = 128
    """Connections beside these that have not shown the token yet, where one is needed, or are in a TLS handshake. A new
    one takes the place of the oldest of the address that has the most."""
    bodies: Annotated[int, Field(ge=1, le=1 << 40)] = 256 << 20
    """Bytes of all requests under way over HTTP; one more is refused as overloaded. Never less than `body`."""


class Tls(Section):
    certificate: Text
    key: Text
    clients: str = ""
    """Certificates of authorities that a client's own must be signed by; without it clients need none."""


class ServeConfig(Section):
    """All settings of a predictor."""

    listen: Text = "127.0.0.1:8010"
    workers: Annotated[int, Field(ge=1, le=1024)] = 1
    stall_after: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """Seconds that the loop of one of several workers may stand still before it is killed and started again; 0: for
    ever."""
    models: Annotated[dict[Name, ModelSource], Field(min_length=1, max_length=1000)]
    splits: dict[Name, SplitRule] = {}
    shadows: dict[Name, ShadowRule] = {}
    """By the model whose requests are copied."""
    default: str = ""
    """The model or split of requests that name none; the only one, if there is just one."""
    limits: Limits = Limits()
    tls: Tls | None = None
    access_log: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the requests that are logged."""
    grpc: bool = True
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Of a worker, that compute batches. 0: its loop does, between reading and writing."""
    awake: Annotated[float, Field(ge=0, le=1)] = 0.0002
    """Seconds after an answer during which a worker polls for the next request: to be woken up can take as long as to
    compute. 0: it sleeps at once."""
    network_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """That one network uses for one batch."""

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        for name, split in self.splits.items():
            tags = [variant.tag or variant.model for variant in split.variants]
            if len(set(tags)) < len(tags):
                raise _wrong(f"splits.{name}: two variants have the same tag: {', '.join(tags)}; give each its own")
            for place, variant in enumerate(split.variants):
                _known(f"splits.{name}.variants[{place}].model", variant.model, self.models)
        for name, shadow in self.shadows.items():
            _known(f"shadows.{name}", name, self.models)
            _known(f"shadows.{name}.model", shadow.model, self.models)
            if shadow.model == name:
                raise _wrong(f"shadows.{name}.model: a model cannot be its own shadow")
        if self.default:
            _known("default", self.default, [*self.models, *self.splits])
        return self

    @property
    def default_model(self) -> str:
        """What a request without a name means; empty if it cannot be told."""
        names = list(dict.fromkeys([*self.splits, *self.models]))
        return self.default or (names[0] if len(names) == 1 else "")


def read_serve_config(path: str | os.PathLike[str]) -> ServeConfig:
    """A file, or a JobError with all that is wrong with it, by key and line."""
    return read_settings(path, ServeConfig, what="a predictor's configuration")


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(one, str) and one for one in given)


def _known(key: str, name: str, known: Iterable[str]) -> None:
    words = list(known)
    if name not in words:
        raise _wrong(f"{key}: there is no {name}; {suggestion(name, words, kind='names')}")


def _wrong(text: str) -> PydanticCustomError:
    return PydanticCustomError("serve_names", "{text}", {"text": text})
