"""The data of a run as `data.placement` has it: its pieces, and the trainers that each of them is for.

With `shared` and `split` the coordinator looks at the files itself; with `node` every node has its own. A node that has
had no trainer for `cluster.start_timeout` is gone: with `node` nobody can read what it has left, until it is back; with
`split` its files go to the other nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from clickline.config import Job
from clickline.data.leasing.file_layout import FileLayout, layouts_of
from clickline.data.leasing.file_split import contiguous_split
from clickline.data.leasing.leases import LeaseTable, PieceRange
from clickline.data.leasing.pieces import Piece, changed_data, cut_files, no_rows, shortage
from clickline.data.sources.files import find
from clickline.errors import CheckpointError, ClicklineError, DataError
from clickline.ps.coordinator.state.members import Member, RunMembers
from clickline.ps.coordinator.state.node_pieces import Evaluated, NodePieces
from clickline.ps.coordinator.state.node_presence import NodePresence
from clickline.ps.coordinator.state.node_rows import NodeRows
from clickline.ps.coordinator.state.record import RunRecord
from clickline.ps.protocol.member_messages import NodeFiles


class PlacedData:
    """The pieces of an epoch, and whom they are for. Not locked: the run's state, which owns it, is."""

    def __init__(self, *, job: Job, record: RunRecord, members: RunMembers, lockstep: bool) -> None:
        self._job, self._record, self._lockstep = job, record, lockstep
        self._presence = NodePresence(members, patience=job.cluster.start_timeout)
        placement = job.data.placement
        self.by_node = (
            NodePieces(cluster=job.cluster, record=record, presence=self._presence) if placement == "node" else None
        )
        """None unless nodes have files of their own."""
        self._split = placement == "split"
        self.pieces: list[Piece] = []
        """Of the epoch. The list stays the same one: with `node` it is completed when a node joins."""
        self._file_count = 0
        self.failure: ClicklineError | None = None
        """Why the run cannot go on with what a node has."""

    def open(self) -> None:
        """Look at the training data, as far as this process can. Raises if an epoch that has begun cannot go on."""
        record = self._record
        if record.book is not None and bool(record.cut_nodes) != (self.by_node is not None):
            then, now = ("node", "shared or split") if record.cut_nodes else ("shared or split", "node")
            raise CheckpointError(
                f"the epoch was begun with data.placement {then}, and cannot be finished with {now}: set it as it was, "
                "or begin from the weights with --warm-start"
            )
        if self.by_node is not None:
            return
        record.cut_nodes = []
        self.pieces[:], files = self._cut(self._job.data.train)
        self._file_count = len(files)
        if record.book is not None and record.book["pieces"] != len(self.pieces):
            raise CheckpointError(changed_data(record.book["pieces"], len(self.pieces)))

    def _cut(self, paths: list[str]) -> tuple[list[Piece], list[FileLayout]]:
        """Files that all can read. A run keeps to its first cut, or its lease tables would mean nothing."""
        record, cluster = self._record, self._job.cluster
        record.cut_for = record.cut_for or cluster.trainers
        if record.cut_bytes is None:
            record.cut_bytes = cluster.piece_bytes
        files = find(paths, options=self._job.data.storage)
        layouts = layouts_of(files, self._job.data, piece_bytes=record.cut_bytes, trainers=record.cut_for)
        pieces = cut_files(layouts, piece_bytes=record.cut_bytes, trainers=record.cut_for)
        if not pieces:
            raise no_rows(layouts)
        return pieces, layouts

    def admit(self, member: Member, files: NodeFiles | None) -> None:
        """A trainer has joined, with the files of its node if they are its own."""
        if self.by_node is None or files is None:
            return
        try:
            if self.by_node.admit(member, files):
                self.take_up()
        except (DataError, CheckpointError) as error:
            self.failure = error

    def reported(self, member: Member) -> bool:
        """Whether the files of a trainer's node are known, if they must be."""
        return self.by_node is None or self.by_node.reported(member.node)

    def note_rows(self, piece: int, rows: int) -> None:
        """Keep the number of rows of a piece that was trained to its end."""
        if self.by_node is not None:
            self.by_node.note_rows(piece, rows)

    def begin_epoch(self) -> None:
        """Settle the pieces of the next epoch: with `node`, those of all nodes that are known."""
        if self.by_node is not None:
            self.by_node.cut()
            self.take_up()

    def take_up(self) -> None:
        """Settle the pieces of an epoch that has begun."""
        if self.by_node is not None:
            self.pieces[:] = self.by_node.training()

    def evaluated(self, what: Evaluated) -> tuple[list[Piece], list[PieceRange], list[str]]:
        """Pieces of the data to evaluate, whom they are for, and its files."""
        if self.by_node is not None:
            return self.by_node.evaluated(what)
        pieces, files = self._cut(getattr(self._job.data, what))
        return pieces, [PieceRange(len(pieces))], [file.path for file in files]

    def ranges(self, trainers: Sequence[Member]) -> list[PieceRange]:
        """Whom the pieces of the epoch are for, with these trainers."""
        if self.by_node is not None:
            return [self._range(cut.pieces, cut.node, trainers) for cut in self._record.cut_nodes]
        nodes = self._nodes_to_split(trainers) if self._split else []
        if not nodes:
            names = tuple(trainer.name for trainer in trainers) if self._lockstep else None
            return [PieceRange(len(self.pieces), names=names)]
        counts = [0] * self._file_count
        for piece in self.pieces:
            counts[piece.file] += 1
        shares = contiguous_split(self._file_count, len(nodes))
        return [
            self._range(sum(counts[share.start : share.stop]), node, trainers)
            for node, share in zip(nodes, shares, strict=True)
        ]

    def _nodes_to_split(self, trainers: Sequence[Member]) -> list[int]:
        # Lockstep has no use for a node whose trainer may come back: it is taken in at the next epoch.
        return sorted({t.node for t in trainers}) if self._lockstep else self._presence.expected(trainers)

    def _range(self, pieces: int, node: int, trainers: Sequence[Member]) -> PieceRange:
        if not self._lockstep:
            return PieceRange(pieces, node, given_up=self.by_node is not None and node in self._presence.gone)
        names = tuple(trainer.name for trainer in trainers if trainer.node == node)
        return PieceRange(pieces, node, names, given_up=not names)

    def nodes_present(self) -> bool:
        """Whether every node that has pieces of its own has a trainer, or is known to be gone."""
        there = self._presence.live | self._presence.gone
        return all(cut.node in there for cut in self._record.cut_nodes)

    def reconcile(self, table: LeaseTable, trainers: Sequence[Member]) -> list[str]:
        """Have the table follow nodes that come and go; returns what is to be said of it."""
        if self.by_node is None and not self._split:
            return []
        nodes = [each.node for each in table.ranges if each.node is not None]
        changed = self._presence.update([*nodes, *(cut.node for cut in self._record.cut_nodes)])
        # In lockstep a death makes all go back, and the pieces are for those who are there then.
        if nodes and trainers and all(each.names is None for each in table.ranges):
            if self._split:
                if nodes != self._nodes_to_split(trainers):
                    table.assign(self.ranges(trainers))
            else:
                ranges = [replace(each, given_up=each.node in self._presence.gone) for each in table.ranges]
                if ranges != list(table.ranges):
                    table.assign(ranges)
        return [self._said_of(node, table) for node in sorted(changed)]

    def _said_of(self, node: int, table: LeaseTable) -> str:
        if node not in self._presence.gone:
            return f"node {node} has a trainer again"
        gone = f"node {node} has had no trainer for {self._presence.patience:.0f} s"
        if self._split:
            return f"{gone}: its files go to the other nodes"
        left = sum(table.range_of(piece).node == node for piece in table.unreachable)
        # In lockstep its pieces are given up with the rollback that follows.
        what = f"{left} of its pieces are" if left else "what it has left is"
        return f"{gone}: {what} not read unless one comes back"

    def node_rows(self, table: LeaseTable | None) -> list[NodeRows]:
        """The rows of every node; those of the epoch of this table included, if there is one."""
        nodes = {each.node: msgspec.structs.replace(each) for each in self._record.node_rows}
        if table is None:
            return list(nodes.values())
        left: dict[int | None, list[int | None]] = {}
        for piece in table.unreachable:
            rows = None if self.by_node is None else self.by_node.untrained_rows(piece, table)
            left.setdefault(table.range_of(piece).node, []).append(rows)
        for node, trained in table.rows_by_node().items():
            nodes.setdefault(node, NodeRows(node)).add(rows=trained, untrained=left.get(node, []))
        return [nodes[node] for node in sorted(nodes)]

    def close_epoch(self, table: LeaseTable) -> list[str]:
        """Add the epoch to the rows of every node; returns what was not trained, in words."""
        before = {each.node: each for each in self._record.node_rows}
        self._record.node_rows = self.node_rows(table)
        return [
            f"epoch {self._record.epoch + 1}: {text}"
            for each in self._record.node_rows
            if (text := each.untrained_since(before.get(each.node)))
        ]

    def shortages(self) -> list[str]:
        """Warnings if there are fewer pieces than trainers, some of which would only wait."""
        if self.by_node is None:
            idle = shortage(len(self.pieces), trainers=self._job.cluster.trainers)
            return [] if idle is None else [idle]
        found = ((cut, self._presence.trainers_of(cut.node)) for cut in self._record.cut_nodes)
        idle_by_node = ((cut.node, shortage(cut.pieces, trainers=trainers)) for cut, trainers in found)
        return [f"node {node}: {idle}" for node, idle in idle_by_node if idle is not None]
