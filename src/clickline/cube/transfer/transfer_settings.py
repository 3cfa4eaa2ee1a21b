"""Settings of transfer: a YAML file with the keys of Cube's transfer.conf.

dict_name: ctr
donefile_address: /data/versions          # or any URL
output_address: /data/builds
tmp_address: /data/transfer
transfer_address: 10.0.0.5                # how agents reach this machine; optional
shards:                                   # replicas of each
  - [{agent: "http://10.0.0.1:8001", cube: "tcp:10.0.0.1:8027", deploy_path: /cube}]
mode: base_delta
interval: 10
wait: 5
keep: 3
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from clickline.config.loading.cross_checks import Contradiction, CrossChecked
from clickline.config.loading.reader import read_settings
from clickline.config.section import ASCII_NAME_PATTERN
from clickline.cube.builder.build_record import BuildListener
from clickline.cube.layouts.layout import MOST_SHARDS, Layout
from clickline.cube.layouts.layout_settings import ListedReplicas, ServiceSettings, replica_of
from clickline.cube.layouts.layout_source import FixedLayouts, LayoutSource
from clickline.cube.layouts.layouts_file import LayoutsFile
from clickline.cube.layouts.service_layout import ServiceLayout
from clickline.cube.transfer.builds import TransferPlan

Text = Annotated[str, Field(min_length=1)]


class TransferSettings(CrossChecked):
    """All settings of transfer."""

    dict_name: Annotated[str, Field(pattern=ASCII_NAME_PATTERN, max_length=128)]
    """Name of the deployment; servers and clients must be given the same."""
    donefile_address: Text
    """The store of versions: a directory or any fsspec URL; or a directory with `base.txt` and `patch.txt`."""
    output_address: Text
    """Directory of the builds; served to agents below `/output`."""
    tmp_address: Text
    """Directory of transfer's state, `transfer.json`, and of its scratch files."""
    shards: Annotated[list[ListedReplicas], Field(max_length=MOST_SHARDS)] = []
    """The replicas of each shard; or one of the next two."""
    layouts: str = ""
    """A file of layouts, which is watched: the cube's shards can be changed while it runs."""
    service: ServiceSettings | None = None
    """A headless service by whose names members are found."""
    transfer_address: str = ""
    """How agents reach transfer; empty: the host of `--listen`."""
    wget_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """A second port for the built files; 0: that of `--listen` only."""
    mode: Literal["base_only", "base_delta"] = "base_delta"
    """`base_only` ignores deltas."""
    interval: Annotated[float, Field(gt=0, le=86_400)] = 10.0
    """Seconds between looks at a donefile on another machine; `POST /notify` makes transfer look at once."""
    wait: Annotated[float, Field(ge=0, le=86_400)] = 5.0
    """Seconds that a rollout waits for a server that is dead or fails."""
    keep: Annotated[int, Field(ge=1, le=1000)] = 3
    """Versions whose builds are kept."""
    threads: Annotated[int, Field(ge=0, le=256)] = 0
    """Threads of the builder; 0: one for each core."""

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[Contradiction]:
        named = [key for key in ("shards", "layouts", "service") if given.get(key)]
        if len(named) != 1:
            has = " and ".join(named) or "none of them"
            yield ("shards",), f"the servers are named by one of shards, layouts and service; here by {has}"
        if isinstance(service := given.get("service"), Mapping) and not service.get("agent"):
            yield ("service", "agent"), "transfer reaches servers by their agents; give their addresses"


def read_transfer_yaml(path: Path) -> TransferSettings:
    """Raises JobError with all that is wrong."""
    return read_settings(path, TransferSettings, what="a transfer's configuration")


def plan_of(
    settings: TransferSettings,
    *,
    interval: float | None = None,
    patience: float | None = None,
    keep: int | None = None,
    build_listener: BuildListener | None = None,
) -> TransferPlan:
    """What is to be done. The numbers are from the command line, and go before those of the file."""
    return TransferPlan(
        name=settings.dict_name,
        layouts=_layouts(settings),
        output=Path(settings.output_address),
        scratch=Path(settings.tmp_address),
        interval=settings.interval if interval is None else interval,
        patience=settings.wait if patience is None else patience,
        keep=settings.keep if keep is None else keep,
        threads=settings.threads,
        mode=settings.mode,
        donefile=settings.donefile_address,
        deploy_path=settings.shards[0][0].deploy_path if settings.shards else "",
        build_listener=build_listener,
    )


def _layouts(settings: TransferSettings) -> LayoutSource:
    if settings.layouts:
        return LayoutsFile(settings.layouts)
    if settings.service is not None:
        return ServiceLayout(settings.service)
    return FixedLayouts(Layout(1, tuple(tuple(map(replica_of, replicas)) for replicas in settings.shards)))
