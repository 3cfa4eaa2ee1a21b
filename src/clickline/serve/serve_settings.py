"""The configuration of a predictor: a YAML file, read and checked as a job is. Unknown keys are errors with a
suggestion.

    models:
      ctr: {store: /data/versions/ctr}
      next: {store: /data/versions/next, cube: {servers: [["tcp:10.0.0.1:8027"]], name: next}}
    splits:
      main: {variants: [{model: ctr, weight: 9, tag: a}, {model: next, weight: 1, tag: b}], sticky: true}
    default: main

The token is not part of it: it comes from the environment (CLICKLINE_TOKEN), never from a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from clickline.config.job import NAME_PATTERN
from clickline.config.loading.cross_checks import Contradiction, CrossChecked, mapping_at, text_at
from clickline.config.loading.origins import Path
from clickline.config.loading.reader import read_settings
from clickline.config.loading.suggestions import suggestion
from clickline.config.section import Section
from clickline.cube.layouts.layout_settings import ServiceSettings

Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=128)]
Text = Annotated[str, Field(min_length=1)]
Seconds = Annotated[float, Field(gt=0, le=3600)]
CacheBytes = Annotated[int, Field(ge=0, le=1 << 40)]


class CubeSource(CrossChecked):
    """A cube that rows are read from."""

    servers: list[list[str]] | str = ""
    """Addresses of the replicas of each shard, or the path of a cube.conf, whose own settings are then used; or one of
    the next two."""
    layouts: str = ""
    """A file of layouts, which is watched: the cube's shards can be changed while it is read from."""
    service: ServiceSettings | None = None
    """A headless service by whose names servers are found."""
    name: str = ""
    """Name of the cube's dictionary."""
    timeout: Seconds = 1.0
    """Seconds that each try may take."""
    hedge: Annotated[float, Field(ge=0, le=3600)] = 0.02
    """After so many seconds without an answer another replica is asked as well; 0: never."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """Further tries after the first has failed."""
    failure: Literal["error", "zeros"] = "error"
    """When no replica of a shard answers: fail the request, or go on with zeros and count them."""
    row_cache: CacheBytes = 0
    """Bytes in which each loaded version of a worker keeps rows that it has read; 0: none are kept."""

    @field_validator("servers", mode="before")
    @classmethod
    def _are_addresses(cls, given: Any) -> Any:
        if isinstance(given, str):
            return given
        if isinstance(given, list) and given and all(_are_texts(replicas) for replicas in given):
            return given
        raise PydanticCustomError(
            "cube_servers", 'must be [["tcp:HOST:PORT", …], …], replicas by shard, or the path of a cube.conf'
        )

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        named = [key for key in ("servers", "layouts", "service") if given.get(key)]
        if len(named) != 1:
            has = " and ".join(named) or "none of them"
            yield ("servers",), f"the servers are named by one of servers, layouts and service; here by {has}"


class ModelSource(Section):
    """A model: where its versions are, and where their rows."""

    store: Text
    """Directory or URL of its versions."""
    cube: CubeSource | None = None
    """Rows come from here; without it they are looked up in the store's own files."""
    interval: Seconds = 0.5
    """Seconds between two looks for another version."""
    keep: Annotated[int, Field(ge=1, le=100)] = 2
    """Versions that can be asked for by number, the current one included."""
    request_cache: CacheBytes = 0
    """Bytes in which each loaded version of a worker keeps answers, to give them again to the same requests (over HTTP,
    other than Open Inference); 0: none are kept. A request that is answered so is not given to a shadow."""


class VariantWeight(Section):
    """A model that gets a share of a split's requests."""

    model: Name
    """The model that answers."""
    weight: Annotated[float, Field(gt=0, le=1e9)] = 1.0
    """Share of the requests, in proportion to the other variants' weights."""
    tag: str = ""
    """Returned with every prediction; the model's name unless given."""


class SplitRule(Section):
    """Requests that name this are divided among models."""

    variants: Annotated[list[VariantWeight], Field(min_length=1, max_length=100)]
    """The models that requests are divided among."""
    sticky: bool = False
    """Whether requests with the same `key` always get the same variant."""


class ShadowRule(Section):
    """Another model is asked as well; its answers are compared with the first model's and thrown away."""

    model: Name
    """The model that is asked as well."""
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the requests that it is given."""


class ServeLimits(Section):
    """What a worker takes on at most."""

    rows: Annotated[int, Field(ge=1, le=1 << 20)] = 4096
    """Rows of one request."""
    body: Annotated[int, Field(ge=1, le=1 << 30)] = 16 << 20
    """Bytes of one request's body, also after unpacking."""
    queue: Annotated[int, Field(ge=1, le=1 << 20)] = 256
    """Requests that wait in one worker; one more is refused as overloaded."""
    batch_rows: Annotated[int, Field(ge=1, le=1 << 20)] = 512
    """Rows that are computed together; a request that has more is computed alone."""
    delay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Seconds that the first request of a batch waits for more. 0: a batch is what came while the last one ran."""
    timeout: Seconds = 1.0
    """A request that has waited for so long is not computed any more."""
    connections: Annotated[int, Field(ge=1, le=1 << 20)] = 1024
    """Open connections of one worker; one more is refused as overloaded."""
    unauthenticated: Annotated[int, Field(ge=1, le=1 << 20)] = 128
    """Connections beside these that have not shown the token yet, where one is needed, or are in a TLS handshake. A new
    one takes the place of the oldest of the address that has the most."""
    bodies: Annotated[int, Field(ge=1, le=1 << 40)] = 256 << 20
    """Bytes of all requests under way over HTTP; one more is refused as overloaded. Never less than `body`."""


class Tls(Section):
    """TLS on the same port, for HTTP and gRPC."""

    certificate: Text
    """File with the server's certificate chain, PEM."""
    key: Text
    """File with the certificate's private key, PEM."""
    clients: str = ""
    """File with certificates of authorities that a client's own must be signed by; empty: clients need none."""


class ServeConfig(CrossChecked):
    """All settings of a predictor."""

    listen: Text = "127.0.0.1:8010"
    """HOST:PORT to serve at; port 0 takes a free one; also `--listen`."""
    workers: Annotated[int, Field(ge=1, le=1024)] = 1
    """Processes that share the port; also `--workers`."""
    stall_after: Annotated[float, Field(ge=0, le=3600)] = 10.0
    """Seconds that the loop of one of several workers may stand still before it is killed and started again; 0: for
    ever; also `--stall-after`."""
    models: Annotated[dict[Name, ModelSource], Field(min_length=1, max_length=1000)]
    """The models, by the name that requests ask for."""
    splits: dict[Name, SplitRule] = {}
    """Requests for this name are divided among models."""
    shadows: dict[Name, ShadowRule] = {}
    """Another model that is asked as well, by the model whose requests are copied."""
    default: str = ""
    """The model or split of requests that name none; the only one, if there is just one."""
    limits: ServeLimits = ServeLimits()
    """What one worker takes on at most; what is beyond that is refused at once."""
    tls: Tls | None = None
    """TLS on the same port, for HTTP and gRPC; without it none."""
    access_log: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the requests that leave a line in the log."""
    grpc: bool = True
    """Whether gRPC is answered on the same port."""
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Threads of a worker that compute batches; 0: its loop does, between reading and writing."""
    awake: Annotated[float, Field(ge=0, le=1)] = 0.0002
    """Seconds after an answer during which a worker polls for the next request: to be woken up can take as long as to
    compute. 0: it sleeps at once."""
    network_threads: Annotated[int, Field(ge=1, le=256)] = 1
    """Threads that one network uses for one batch."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        models = mapping_at(given, "models")
        if not models:  # reported by itself
            return
        for name, model in models.items():
            keeps = isinstance(model, Mapping) and model.get("request_cache")
            if keeps and mapping_at(model, "cube").get("failure") == "zeros":
                problem = "results with zeros for rows that could not be read would be kept; use cube.failure: error"
                yield ("models", name, "request_cache"), problem
        for name, split in mapping_at(given, "splits").items():
            variants = split.get("variants") if isinstance(split, Mapping) else None
            variants = variants if isinstance(variants, list) else []
            tags = [text_at(variant, "tag") or text_at(variant, "model") for variant in variants]
            if len(set(tags)) < len(tags) and None not in tags:
                listed = ", ".join(map(str, tags))
                yield ("splits", name, "variants"), f"two variants have the same tag: {listed}; give each its own"
            for number, variant in enumerate(variants):
                yield from _unknown(("splits", name, "variants", number, "model"), text_at(variant, "model"), models)
        for name, shadow in mapping_at(given, "shadows").items():
            yield from _unknown(("shadows", name), name, models)
            model = text_at(shadow, "model")
            yield from _unknown(("shadows", name, "model"), model, models)
            if model == name:
                yield ("shadows", name, "model"), "a model cannot be its own shadow"
        yield from _unknown(("default",), text_at(given, "default"), [*models, *mapping_at(given, "splits")])

    @property
    def default_model(self) -> str:
        """The model or split of requests that name none; empty if there is no default."""
        names = list(dict.fromkeys([*self.splits, *self.models]))
        return self.default or (names[0] if len(names) == 1 else "")


def read_serve_config(path: str | os.PathLike[str]) -> ServeConfig:
    """Read a file. Raises JobError with all mistakes in it, by key and line."""
    return read_settings(path, ServeConfig, what="a predictor's configuration")


def read_suite_config(path: str | os.PathLike[str], *, model: str, store: str, layouts: str) -> ServeConfig:
    """Read a file for the predictor of `clickline up`, which adds the suite's own model: its store, and its cube."""
    own = {"store": store, "cube": {"layouts": layouts, "name": model}}
    return read_settings(path, ServeConfig, what="a predictor's configuration", given={"models": {model: own}})


def _are_texts(given: Any) -> bool:
    return isinstance(given, list) and bool(given) and all(isinstance(text, str) and text for text in given)


def _unknown(path: Path, name: str | None, known: Iterable[str]) -> Iterator[Contradiction]:
    words = list(known)
    if name is not None and name not in words:
        yield path, f"there is no {name!r}; {suggestion(name, words, kind='names')}"
