"""The data as a trainer sees it from its node: the paths it reads, and the files that the coordinator is told of."""

from __future__ import annotations

from dataclasses import dataclass

from clickline.config import Job
from clickline.data.input_files import paths_here
from clickline.data.leasing.file_layout import FileLayout, layouts_of
from clickline.data.sources.files import find
from clickline.errors import DataError
from clickline.ps.protocol.member_messages import NodeFiles


@dataclass(frozen=True, slots=True)
class NodeData:
    """Paths of the job that a trainer reads."""

    train: list[str]
    valid: list[str]
    test: list[str]
    files: NodeFiles | None = None
    """What they are on this node, if nodes have data of their own."""


def look_at_node(job: Job, *, node: int) -> NodeData:
    """The data for trainers of a node. Raises DataError if the node should have files to train on and has none."""
    data = job.data
    if data.placement != "node":
        return NodeData(data.train, data.valid, data.test)
    train = paths_here(data, data.train)
    if not train:
        raise DataError(
            f"node {node} has no files of data.train: {', '.join(data.train)}; with data.placement: node each node "
            "with trainers needs some of its own"
        )
    # A node may well have nothing to evaluate on, if another has.
    valid, test = paths_here(data, data.valid), paths_here(data, data.test)
    files = NodeFiles(train=_layouts(job, train), valid=_layouts(job, valid), test=_layouts(job, test))
    return NodeData(train, valid, test, files)


def _layouts(job: Job, paths: list[str]) -> list[FileLayout]:
    files = find(paths, options=job.data.storage)
    # There are no more trainers on this node than in the job, so pieces will not be smaller than this.
    return layouts_of(files, job.data, piece_bytes=job.cluster.piece_bytes, trainers=job.cluster.trainers)
