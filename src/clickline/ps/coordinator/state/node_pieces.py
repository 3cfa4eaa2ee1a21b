"""Pieces of data that each node has for itself (`data.placement: node`).

Trainers send the layouts of their node's files when they join. The pieces of all nodes are numbered one node after the
other. Files of the same path on two nodes are two files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Literal

from clickline.config.cluster import Cluster
from clickline.data.leasing.file_layout import FileLayout, piece_size
from clickline.data.leasing.leases import LeaseTable, PieceRange
from clickline.data.leasing.pieces import Piece, cut_files, no_rows
from clickline.errors import CheckpointError, DataError
from clickline.ps.coordinator.state.members import Member
from clickline.ps.coordinator.state.node_presence import NodePresence
from clickline.ps.coordinator.state.node_rows import NodeCut, digest_of
from clickline.ps.coordinator.state.record import RunRecord
from clickline.ps.protocol.member_messages import NodeFiles

Evaluated = Literal["valid", "test"]


class NodePieces:
    """The files of every node in pieces. Not locked: the run's state, which owns it, is."""

    def __init__(self, *, cluster: Cluster, record: RunRecord, presence: NodePresence) -> None:
        self._cluster, self._record, self._presence = cluster, record, presence
        self._files_of: dict[int, NodeFiles] = {}
        self._known_rows: dict[tuple[int, int], int] = {}
        """Of pieces that were trained to their end, by node and place in it."""

    def admit(self, member: Member, files: NodeFiles) -> bool:
        """The files that a trainer found on its node; whether pieces of an epoch under way are known by that.

        Raises DataError or CheckpointError if they are not those that the node had.
        """
        node = member.node
        known = self._files_of.setdefault(node, files)
        if _names(known.train) != _names(files.train):
            raise DataError(
                f"{member.name} finds other training files on node {node} than were there before: leave them as they "
                "are while the run is under way, and give processes of one node the same CLICKLINE_NODE"
            )
        cut = self._cut_of(node)
        if known is not files or cut is None or self._record.book is None:
            return False
        if cut.digest != digest_of(files.train):
            raise CheckpointError(
                f"the training files of node {node} are not those that it had when the epoch began: restore them (the "
                "order of cluster.hosts, too), or start over with --fresh"
            )
        return True

    def reported(self, node: int) -> bool:
        """Whether the files of a node are known."""
        return node in self._files_of

    def cut(self) -> None:
        """Settle how all nodes that are known are cut. A node keeps to its first cut while its files stay the same."""
        cuts = []
        for node, files in sorted(self._files_of.items()):
            cut, digest = self._cut_of(node), digest_of(files.train)
            if cut is None or cut.digest != digest:
                sizes, trainers = [file.size for file in files.train], self._presence.trainers_of(node)
                size = piece_size(sizes, piece_bytes=self._cluster.piece_bytes, trainers=trainers)
                cut = NodeCut(node, size, len(cut_files(files.train, piece_bytes=size, trainers=1)), digest)
            cuts.append(cut)
        if not any(cut.pieces for cut in cuts):
            raise no_rows([file for files in self._files_of.values() for file in files.train])
        self._record.cut_nodes = cuts

    def training(self) -> list[Piece]:
        """The pieces of all nodes as they were cut; those of nodes that have not joined yet are unknown."""
        pieces: list[Piece] = []
        for cut in self._record.cut_nodes:
            files, first = self._files_of.get(cut.node), len(pieces)
            if files is None:
                unknown = f"a file of node {cut.node}"
                pieces += [Piece(first + place, 0, unknown, 0, None) for place in range(cut.pieces)]
            else:
                pieces += cut_files(files.train, piece_bytes=cut.piece_bytes, trainers=1, first=first)
        return pieces

    def evaluated(self, what: Evaluated) -> tuple[list[Piece], list[PieceRange], list[str]]:
        """Pieces of the data to evaluate, of all nodes that have any; whom they are for, and the files."""
        pieces: list[Piece] = []
        ranges, paths = [], []
        for node, node_files in sorted(self._files_of.items()):
            files = node_files.valid if what == "valid" else node_files.test
            size, trainers = self._cluster.piece_bytes, self._presence.trainers_of(node)
            cut = cut_files(files, piece_bytes=size, trainers=trainers, first=len(pieces))
            pieces += cut
            ranges.append(PieceRange(len(cut), node, given_up=node in self._presence.gone))
            paths += [f"node {node}: {file.path}" for file in files]
        if not pieces:
            raise DataError(f"no node has rows of data.{what}: check the paths on the nodes, or leave it empty")
        return pieces, ranges, paths

    def note_rows(self, piece: int, rows: int) -> None:
        """Keep the number of rows of a piece that was trained to its end."""
        self._known_rows[self._place(piece)] = rows

    def untrained_rows(self, piece: int, table: LeaseTable) -> int | None:
        """Rows that are left of a piece; None if it was trained to its end in no epoch of this process."""
        rows = self._known_rows.get(self._place(piece))
        return None if rows is None else rows - table.rows_begun(piece)

    def _place(self, piece: int) -> tuple[int, int]:
        for cut in self._record.cut_nodes:
            if piece < cut.pieces:
                return cut.node, piece
            piece -= cut.pieces
        return -1, piece

    def _cut_of(self, node: int) -> NodeCut | None:
        return next((cut for cut in self._record.cut_nodes if cut.node == node), None)


def _names(files: Sequence[FileLayout]) -> list[str]:
    # Not paths: the same data may be mounted in another directory after a restart.
    return [PurePosixPath(file.path).name for file in files]
