"""A file of layouts, which transfer and readers watch. A cube is resharded by what is written into it.

    layouts:
      - epoch: 1
        shards:
          - [{agent: "http://10.0.0.1:8001", cube: "tcp:10.0.0.1:8027"}]
      - epoch: 2
        service: {cube: "tcp:cube2-{ordinal}.cube2:8027", agent: "http://cube2-{ordinal}.cube2:8001", shards: 3}

The layout with the highest epoch is the one to be read from, as soon as all of its shards have the version in service.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from clickline.config.loading.reader import read_settings
from clickline.config.section import Section
from clickline.cube.layouts.layout import MOST_SHARDS, Layout, LayoutsUnknownError, checked_layouts
from clickline.cube.layouts.layout_settings import ListedReplicas, ServiceSettings, replica_of
from clickline.cube.layouts.layout_source import FixedLayouts, LayoutSource
from clickline.cube.layouts.service_layout import Resolve, ServiceLayout, resolves
from clickline.errors import ClicklineError, JobError
from clickline.files.atomic import replace_json


class LayoutEntry(Section):
    """One layout of the file: its members listed, or found by a service."""

    epoch: Annotated[int, Field(ge=1, le=2**31)]
    """Number of the layout: the highest is the one to be read from."""
    shards: Annotated[list[ListedReplicas], Field(min_length=1, max_length=MOST_SHARDS)] | None = None
    """The replicas of each shard."""
    service: ServiceSettings | None = None
    """Or a headless service that knows them."""


class LayoutsSettings(Section):
    """The contents of the file."""

    layouts: Annotated[list[LayoutEntry], Field(min_length=1, max_length=16)]
    """All that have servers. A new one is added beside the old one, which is removed when nobody reads it any more."""


class LayoutsFile:
    """Layouts of a file. It may be replaced at any time; while it cannot be read, the layouts are unknown."""

    def __init__(self, path: str | Path, *, resolve: Resolve = resolves) -> None:
        self._path, self._resolve = Path(path), resolve
        self._identity: tuple[int, int, int] | None = None
        self._entries: list[LayoutSource] = []

    def layouts(self) -> tuple[Layout, ...]:
        try:
            # Of what a link points to: a volume of Kubernetes is updated by changing a link.
            file = self._path.stat()
            # Taken before the content is read: what is written in between has another identity.
            identity = (file.st_ino, file.st_size, file.st_mtime_ns)
            if identity != self._identity:
                settings = read_settings(self._path, LayoutsSettings, what="a file of layouts")
                self._entries = [self._source(entry) for entry in settings.layouts]
                self._identity = identity
            layouts = [layout for entry in self._entries for layout in entry.layouts()]
            return checked_layouts(layouts, source=str(self._path))
        except LayoutsUnknownError:
            raise
        except (OSError, ClicklineError) as error:
            self._identity = None
            raise LayoutsUnknownError(f"{self._path}: the cube's layouts cannot be read: {error}") from None

    def _source(self, entry: LayoutEntry) -> LayoutSource:
        if entry.service is not None and entry.shards is None:
            return ServiceLayout(entry.service, epoch=entry.epoch, resolve=self._resolve)
        if entry.service is not None or entry.shards is None:
            raise JobError(f"layout {entry.epoch} must have either shards or a service")
        shards = tuple(tuple(map(replica_of, replicas)) for replicas in entry.shards)
        return FixedLayouts(Layout(entry.epoch, shards))


def write_layouts(path: Path, layouts: Sequence[Layout]) -> None:
    """Replace the file as a whole: whoever watches it finds the old layouts or the new ones."""
    entries = [
        {
            "epoch": layout.epoch,
            "shards": [
                [{"agent": each.agent, "cube": each.cube, "deploy_path": each.deploy_path} for each in replicas]
                for replicas in layout.shards
            ],
        }
        for layout in checked_layouts(layouts, source=str(path))
    ]
    replace_json(path, {"layouts": entries})
