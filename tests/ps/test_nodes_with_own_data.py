"""The coordinator leases the files of a node to trainers of that node, and keeps books of what was not trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.config import Job
from clickline.data.leasing.leases import LeaseTable, PieceRange
from clickline.errors import CheckpointError, DataError
from clickline.ps.coordinator.state.members import MemberState, RunMembers
from clickline.ps.coordinator.state.placed_data import PlacedData
from clickline.ps.coordinator.state.record import RunRecord
from clickline.ps.coordinator.state.run_state import RunState
from clickline.ps.coordinator_client import CoordinatorClient
from clickline.ps.protocol.member_messages import JoinRequest
from clickline.ps.protocol.work_messages import Action, FinishedReply, FinishedRequest, NextReply, NextRequest
from clickline.ps.trainer.node_data import look_at_node
from clickline.train.checkpoints.checkpoint_manifest import Checkpoint
from clickline.train.checkpoints.warm_start import schema_for
from clickline.train.monitoring.piece_progress import progress_in
from support.eventually import eventually
from support.training.coordinators import AnsweringCoordinator, silence

ROWS = 10
"""Of every file, as far as the coordinator is told."""
Coordinators = Callable[..., AnsweringCoordinator]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def coordinators(small_job: Job, folder: Path) -> Iterator[Coordinators]:
    made: list[AnsweringCoordinator] = []

    def make(placement: str, *, record: RunRecord | None = None, **data: Any) -> AnsweringCoordinator:
        made.append(
            AnsweringCoordinator(
                with_data(small_job, placement, **data),
                folder / f"run{len(made)}",
                record=record,
                start_timeout=0.5,
                trainers=4,
            )
        )
        return made[-1]

    yield make
    for coordinator in made:
        coordinator.close()


def with_data(job: Job, placement: str, **changes: Any) -> Job:
    update = {"placement": placement, "train": ["train_data/*"], "test": [], **changes}
    return job.model_copy(update={"data": job.data.model_copy(update=update)})


def node(folder: Path, number: int, *files: str, size: int = 5) -> Path:
    """The directory of a node, with training files."""
    place = folder / f"node{number}" / "train_data"
    place.mkdir(parents=True)
    for name in files:
        (place / name).write_text("x" * size)
    return place.parent


def join(coordinator: AnsweringCoordinator, rank: int, number: int) -> CoordinatorClient:
    """A trainer on a node, which looks at its files as a process there would."""
    member = coordinator.member(rank=rank)
    with pytest.MonkeyPatch.context() as there:
        place = coordinator.directory.parent / f"node{number}"
        if place.exists():
            there.chdir(place)
        member.introduce(node=number, files=look_at_node(coordinator.job, node=number).files)
    member.join()
    return member


def begin(coordinator: AnsweringCoordinator) -> None:
    """An epoch."""
    state = coordinator.state
    state.lifecycle.begun = True
    with state.changed:
        state.data.begin_epoch()
        ranges, pieces = state.data.ranges(state.members.live("trainer")), state.data.pieces
        table = LeaseTable(len(pieces), attempts=3, ranges=ranges, first=state.record.next_lease)
        state.use_leases(table, training=True)
        state.offer(Action.TRAIN, pieces)


def work(member: CoordinatorClient) -> NextReply:
    # As if it held something back: the reply is not waited for.
    return member.ask(NextRequest(holding=True), NextReply)


def files_trained(member: CoordinatorClient) -> list[str]:
    """Names of all files that a trainer is given, and finishes."""
    names = []
    while (given := work(member).work) is not None:
        names.append(given.piece.path.partition("train_data/")[2])
        done = FinishedRequest(lease=given.lease, rows=ROWS, generation=given.generation)
        assert member.ask(done, FinishedReply).counted
    return names


def lose(coordinator: AnsweringCoordinator, member: CoordinatorClient) -> None:
    """A trainer dies, and its leases are returned."""
    silence(member)
    coordinator.failures.process_ended("trainer", member.rank, "died")
    for holder in coordinator.failures.orphaned_holders():
        coordinator.failures.return_leases(holder, {})


def books(state: RunState) -> list[tuple[int, int, int, int | None]]:
    nodes = state.data.node_rows(state.leases.of_epoch)
    return [(each.node, each.rows, each.untrained_pieces, each.untrained_rows) for each in nodes]


def test_a_node_is_given_its_own_files_only_also_if_others_have_files_of_the_same_path(
    folder: Path, coordinators: Coordinators
) -> None:
    node(folder, 0, "a", "b")
    node(folder, 1, "a", "c", "d")
    coordinator = coordinators("node")
    one, other = join(coordinator, 0, 0), join(coordinator, 1, 1)
    begin(coordinator)
    assert files_trained(other) == ["a", "c", "d"]
    assert not coordinator.state.leases.table.complete
    assert files_trained(one) == ["a", "b"]
    assert coordinator.state.leases.table.complete
    assert books(coordinator.state) == [(0, 2 * ROWS, 0, 0), (1, 3 * ROWS, 0, 0)]
    assert [member["node"] for member in coordinator.state.members.to_status()] == [0, 1]


def test_rows_of_a_node_that_is_gone_are_counted_as_not_trained_until_it_is_back(
    folder: Path, coordinators: Coordinators
) -> None:
    node(folder, 0, "a", "b")
    node(folder, 1, "a", "c", "d")
    coordinator = coordinators("node")
    state, failures = coordinator.state, coordinator.failures
    one, other = join(coordinator, 0, 0), join(coordinator, 1, 1)
    begin(coordinator)
    assert len(files_trained(one)) + len(files_trained(other)) == 5
    state.finish_leases(ends_epoch=True)

    # In the second epoch node 1 does one file, and 4 rows of another. Its rows are known from the first one.
    begin(coordinator)
    first, second = work(other).work, work(other).work
    assert first is not None and second is not None
    other.ask(FinishedRequest(lease=first.lease, rows=ROWS, generation=first.generation), FinishedReply)
    with state.changed:
        state.leases.table.progress(second.lease, 4)
    lose(coordinator, other)
    assert files_trained(one) == ["a", "b"]
    eventually(lambda: failures.check() or state.leases.table.complete, what="node 1 is given up")
    assert (
        "node 1 has had no trainer for 0 s: 2 of its pieces are not read unless one comes back" in state.record.faults
    )
    assert books(state) == [(0, 4 * ROWS, 0, 0), (1, 4 * ROWS + 4, 2, ROWS + ROWS - 4)]
    assert sum(rows + (left or 0) for _, rows, _, left in books(state)) == 2 * 5 * ROWS

    # Somebody comes before the epoch is over, and another is lost for good in the third.
    back = join(coordinator, 1, 1)
    failures.check()
    assert files_trained(back) == ["c", "d"]
    assert books(state) == [(0, 4 * ROWS, 0, 0), (1, 6 * ROWS, 0, 0)]
    state.finish_leases(ends_epoch=True)
    lose(coordinator, back)
    begin(coordinator)
    files_trained(one)
    eventually(lambda: failures.check() or state.leases.table.complete, what="node 1 is given up again")
    state.finish_leases(ends_epoch=True)
    assert state.record.faults[-1] == (
        f"epoch 3: 3 pieces of node 1 with {3 * ROWS} rows were not trained: the node was gone"
    )
    saved = RunRecord.from_dict(state.record_for_checkpoint())
    assert saved.node_rows == state.record.node_rows
    assert books(state) == [(0, 6 * ROWS, 0, 0), (1, 6 * ROWS, 3, 3 * ROWS)]


def test_a_trainer_that_finds_other_files_than_its_node_had_ends_the_run(
    folder: Path, coordinators: Coordinators
) -> None:
    node(folder, 0, "a")
    coordinator = coordinators("node")
    join(coordinator, 0, 0)
    (folder / "node0" / "train_data" / "b").write_text("x")
    join(coordinator, 1, 0)
    with pytest.raises(DataError, match=r"trainer\.1 finds other training files on node 0"):
        raise coordinator.state.data.failure or AssertionError("nothing is wrong")


@pytest.mark.parametrize("swapped", [False, True])
def test_an_epoch_is_resumed_with_the_files_that_its_nodes_had(
    folder: Path, coordinators: Coordinators, swapped: bool
) -> None:
    node(folder, 0, "a", "b")
    node(folder, 1, "a", "b", size=9)
    before = coordinators("node")
    one = join(before, 0, 0)
    join(before, 1, 1)
    begin(before)
    files_trained(one)
    record = RunRecord.from_dict(before.state.record_for_checkpoint())

    after = coordinators("node", record=record)
    after.state.data.open()
    after.state.take_up_leases()
    assert [piece.path for piece in after.state.data.pieces] == ["a file of node 0"] * 2 + ["a file of node 1"] * 2
    if swapped:
        (folder / "node0").rename(folder / "other")
        (folder / "node1").rename(folder / "node0")
    again = join(after, 3, 0)
    if swapped:
        with pytest.raises(CheckpointError, match="files of node 0 are not those that it had when the epoch began"):
            raise after.state.data.failure or AssertionError("nothing is wrong")
        return
    after.state.lifecycle.begun = True
    after.state.offer(Action.TRAIN, after.state.data.pieces)
    assert files_trained(again) == []
    assert files_trained(join(after, 2, 1)) == ["a", "b"]
    assert books(after.state) == [(0, 2 * ROWS, 0, 0), (1, 2 * ROWS, 0, 0)]


@pytest.mark.parametrize(("then", "now"), [("node", "shared"), ("shared", "node"), ("split", "node")])
def test_an_epoch_is_not_finished_with_another_placement(
    folder: Path, coordinators: Coordinators, then: str, now: str
) -> None:
    node(folder, 0, "a")
    data = {"train": [str(folder / "node0" / "train_data" / "a")]}
    before = coordinators(then, **data)
    before.state.data.open()
    join(before, 0, 0)
    begin(before)
    record = RunRecord.from_dict(before.state.record_for_checkpoint())
    with pytest.raises(CheckpointError, match=r"the epoch was begun with data\.placement"):
        coordinators(now, record=record, **data).state.data.open()


def test_a_split_is_by_files_and_those_of_a_node_that_is_gone_go_to_the_others(
    folder: Path, coordinators: Coordinators
) -> None:
    node(folder, 0, "a", "b", "c", "d", "e")
    coordinator = coordinators("split", train=[str(folder / "node0" / "train_data")])
    state, failures = coordinator.state, coordinator.failures
    state.data.open()
    one, other = join(coordinator, 0, 0), join(coordinator, 1, 1)
    begin(coordinator)
    assert state.leases.table.ranges == (PieceRange(3, 0), PieceRange(2, 1))
    first = work(other).work
    assert first is not None and first.piece.path.endswith("/d")
    lose(coordinator, other)
    assert files_trained(one) == ["a", "b", "c"]
    eventually(lambda: failures.check() or state.leases.table.ranges == (PieceRange(5, 0),), what="node 1 is given up")
    assert files_trained(one) == ["d", "e"]
    assert state.leases.table.complete
    assert "node 1 has had no trainer for 0 s: its files go to the other nodes" in state.record.faults


def test_in_lockstep_pieces_of_a_node_are_for_its_trainers_by_name(small_job: Job, folder: Path) -> None:
    node(folder, 0, "a", "b")
    node(folder, 1, "a")
    job = with_data(small_job, "node")
    members = RunMembers(job.cluster)
    record = RunRecord()
    data = PlacedData(job=job, record=record, members=members, lockstep=True)
    for rank, number in enumerate((0, 1, 0)):
        with pytest.MonkeyPatch.context() as there:
            there.chdir(folder / f"node{number}")
            files = look_at_node(job, node=number).files
        request = JoinRequest(role="trainer", rank=rank, client=rank + 1, address="", pid=1, host="", node=number)
        member, _ = members.add(request)
        data.admit(member, files)
    data.begin_epoch()
    assert data.ranges(members.live("trainer")) == [
        PieceRange(2, 0, ("trainer.0", "trainer.2")),
        PieceRange(1, 1, ("trainer.1",)),
    ]
    members.by_client[2].state = MemberState.DEAD
    assert not data.nodes_present()
    assert data.ranges(members.live("trainer"))[1] == PieceRange(1, 1, (), given_up=True)
    # The table is left as it is while all take the same steps; who is gone is known all the same.
    table = LeaseTable(3, attempts=1, ranges=[PieceRange(3, names=("trainer.0",))])
    data.reconcile(table, members.live("trainer"))
    assert not data.nodes_present()


def test_nodes_share_data_that_is_not_placed(folder: Path, coordinators: Coordinators) -> None:
    node(folder, 0, "a", "b")
    coordinator = coordinators("shared", train=[str(folder / "node0" / "train_data")])
    coordinator.state.data.open()
    join(coordinator, 0, 0)
    other = join(coordinator, 1, 5)
    begin(coordinator)
    assert files_trained(other) == ["a", "b"]
    assert books(coordinator.state) == []


def test_a_node_needs_files_to_train_on_and_may_have_none_to_test_on(small_job: Job, folder: Path) -> None:
    (folder / "here.tsv").write_text("x")
    job = with_data(small_job, "node", train=["here.tsv", "elsewhere/*"], test=["far.tsv"])
    seen = look_at_node(job, node=3)
    assert (seen.train, seen.test) == (["here.tsv"], [])
    assert seen.files is not None
    assert [(file.path, file.size) for file in seen.files.train] == [(str(folder / "here.tsv"), 1)]
    with pytest.raises(DataError, match=r"node 3 has no files of data.train: elsewhere/\*; with data.placement"):
        look_at_node(with_data(small_job, "node", train=["elsewhere/*"]), node=3)


def test_statistics_need_files_where_the_coordinator_runs(small_job: Job, folder: Path) -> None:
    features = small_job.features.model_validate({"dense": [{"name": "I1", "normalise": "standard"}], "slots": ["C1"]})
    job = with_data(small_job, "node").model_copy(update={"features": features})
    with pytest.raises(DataError, match="statistics of the coordinator's node, which has no files"):
        schema_for(job, None)


def test_ranks_do_not_go_on_in_an_epoch_of_nodes_with_their_own_data(folder: Path, coordinators: Coordinators) -> None:
    node(folder, 0, "a")
    coordinator = coordinators("node")
    join(coordinator, 0, 0)
    begin(coordinator)
    manifest: Any = {"standing": coordinator.state.record_for_checkpoint()}
    with pytest.raises(CheckpointError, match="which only parameter servers can resume"):
        progress_in(Checkpoint(folder, manifest))
