"""A predictor created from its configuration: stores opened, cubes connected, splits and shadows set up."""

from __future__ import annotations

from clickline.cube.cube_client import Cube
from clickline.cube.layouts.layout import Layout
from clickline.cube.layouts.layout_source import FixedLayouts, LayoutSource
from clickline.cube.layouts.layouts_file import LayoutsFile
from clickline.cube.layouts.service_layout import ServiceLayout
from clickline.errors import JobError
from clickline.serve.metrics.metric_sink import MetricSink
from clickline.serve.predictor.cube_layouts import CubeLayouts
from clickline.serve.predictor.model_version import CacheSizes
from clickline.serve.predictor.predictor import Predictor
from clickline.serve.predictor.served_model import ServedModel
from clickline.serve.predictor.traffic_split import Shadow, Split
from clickline.serve.serve_settings import CubeSource, ServeConfig
from clickline.versions.store import open_store
from clickline.versions.version_cache import VersionCache


def configured_predictor(
    config: ServeConfig, *, token: bytes = b"", counts: MetricSink | None = None, on_loop: bool = False
) -> Predictor:
    """Create a predictor. `token`: for cubes. `on_loop`: the caller will `attach` an event loop, which may compute."""
    models = {}
    for name, source in config.models.items():
        cube = None if source.cube is None else _connect(source.cube, token, name)
        store = open_store(source.store)
        models[name] = ServedModel(
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
    return Predictor(
        models,
        splits={name: Split.of(name, rule) for name, rule in config.splits.items()},
        shadows={name: Shadow(rule.model, rule.share) for name, rule in config.shadows.items()},
        default=config.default_model,
        limits=config.limits,
        # A loop that waited for more requests to come would not read them meanwhile.
        threads=config.threads or (0 if on_loop and not config.limits.delay else 1),
        counts=counts,
    )


def _connect(source: CubeSource, token: bytes, name: str) -> CubeLayouts:
    if not token:
        raise JobError(f"models.{name}.cube: a cube needs a token; set CLICKLINE_TOKEN in the environment")

    def connect(layout: Layout) -> Cube:
        return Cube.connect(
            layout.servers,
            token=token,
            name=source.name,
            timeout=source.timeout,
            hedge=source.hedge,
            retries=source.retries,
        )

    return CubeLayouts(_layouts(source), connect)


def _layouts(source: CubeSource) -> LayoutSource:
    if source.layouts:
        return LayoutsFile(source.layouts)
    if source.service is not None:
        return ServiceLayout(source.service)
    if isinstance(source.servers, str):
        raise JobError(f"{source.servers!r}: a cube.conf is not read here; list its servers, or name a file of layouts")
    return FixedLayouts.of_addresses(source.servers)
