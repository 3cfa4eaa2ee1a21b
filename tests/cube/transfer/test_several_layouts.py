"""Transfer and several layouts: a new one gets the version in service beside the old one, and serves when it has it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from clickline.cube.builder.version_source import PublishedSource
from clickline.cube.layouts.layouts_file import LayoutsFile
from clickline.cube.transfer.builds import TransferPlan
from clickline.cube.transfer.ledger import Ledger
from clickline.cube.transfer.transfer_process import TransferOptions, TransferProcess
from clickline.cube.transfer.transfer_status import LayoutStatus, transfer_status
from clickline.errors import VersionError
from clickline.files.failpoints import RESHARDING, VARIABLE
from clickline.versions.store import open_store
from support.cubes.layout_servers import NAME, TOKEN, LayoutServers
from support.eventually import eventually
from support.processes import ENVIRONMENT, start
from support.versions.version_stores import VersionStore, keys_from


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[LayoutServers]:
    with LayoutServers(tmp_path / "servers") as found:
        found.start(1, shards=2)
        found.publish(1)
        yield found


@pytest.fixture
def store(tmp_path: Path) -> VersionStore:
    found = VersionStore(tmp_path / "store")
    found.base(keys_from(1, 300))
    found.delta(keys_from(200, 100), keys_from(1, 20))
    return found


@contextmanager
def transferring(servers: LayoutServers, store: VersionStore, *, patience: float = 0.2) -> Iterator[TransferProcess]:
    directory = servers.directory.parent
    plan = TransferPlan(
        name=NAME,
        layouts=LayoutsFile(servers.file),
        output=directory / "builds",
        scratch=directory / "state",
        interval=0.1,
        patience=patience,
    )
    process = TransferProcess(plan, PublishedSource(open_store(store.path)), TransferOptions(token=TOKEN))
    try:
        yield process
    finally:
        process.close()


def in_service(process: TransferProcess, version: int) -> Callable[[], bool]:
    def holds() -> bool:
        status = transfer_status(process.transfer)
        return status.version == version and status.rollout is None

    return holds


def layout(process: TransferProcess, epoch: int) -> LayoutStatus | None:
    return next((each for each in transfer_status(process.transfer).layouts if each.epoch == epoch), None)


def has_switched(process: TransferProcess, epoch: int) -> Callable[[], bool]:
    def holds() -> bool:
        found = layout(process, epoch)
        return found is not None and found.joined and found.switched == found.servers > 0

    return holds


def test_a_new_layout_gets_the_version_in_service_and_takes_part_from_then_on(
    servers: LayoutServers, store: VersionStore
) -> None:
    builds = servers.directory.parent / "builds"
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
        servers.start(2, shards=3)
        servers.publish(1, 2)
        eventually(has_switched(process, 2), what="a layout that serves")
        assert (servers.served(1), servers.served(2)) == ({2}, {2})
        servers.check_rows(1, 2, store)
        servers.check_rows(2, 2, store)
        version = store.delta(keys_from(100, 50), keys_from(30, 5))
        eventually(in_service(process, version), what=f"version {version} in service")
        assert (servers.served(1), servers.served(2)) == ({version}, {version})
        servers.check_rows(2, version, store)
        servers.publish(2)
        eventually(lambda: layout(process, 1) is None, what="the old layout gone")
        eventually(lambda: [path.name for path in builds.glob("shards-*")] == ["shards-3"], what="its builds gone")
        later = store.base(keys_from(5, 250))
        eventually(in_service(process, later), what=f"version {later} in service")
        assert (servers.served(1), servers.served(2)) == ({version}, {later}), "the old layout is left alone"


def test_no_server_of_a_layout_serves_before_all_of_its_shards_have_the_version(
    servers: LayoutServers, store: VersionStore
) -> None:
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
        servers.start(2, shards=3)
        servers.stop_server((2, 1, 0))
        servers.publish(1, 2)

        def others_have(version: int) -> bool:
            return all(version in servers.cubes[(2, shard, 0)].versions.loaded for shard in (0, 2))

        eventually(lambda: others_have(2), what="the other shards have loaded it")
        # Versions go on while the layout is not whole, and it follows them.
        version = store.delta(keys_from(100, 50), keys_from(30, 5))
        eventually(in_service(process, version), what=f"version {version} in service")
        eventually(lambda: others_have(version), what="the other shards have loaded that")
        found = layout(process, 2)
        assert found is not None and not found.joined
        assert servers.served(2) == {0}
        servers.start_one((2, 1, 0))
        eventually(has_switched(process, 2), what="a layout that serves")
        servers.check_rows(2, version, store)


def test_a_transfer_that_is_started_again_knows_which_layouts_have_joined(
    servers: LayoutServers, store: VersionStore
) -> None:
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
        servers.start(2, shards=3)
        servers.stop_server((2, 1, 0))
        servers.publish(1, 2)
        eventually(lambda: layout(process, 2), what="a layout that joins")
    assert Ledger.read(servers.directory.parent / "state").joined == [1]
    with transferring(servers, store) as process:
        servers.start_one((2, 1, 0))
        eventually(has_switched(process, 2), what="a layout that serves")
    assert Ledger.read(servers.directory.parent / "state").joined == [1, 2]
    with transferring(servers, store) as process:
        assert [each.joined for each in transfer_status(process.transfer).layouts] == [True, True]


def test_a_replica_that_comes_into_a_layout_is_brought_up_to_date_and_one_that_goes_is_left_alone(
    servers: LayoutServers, store: VersionStore
) -> None:
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
        servers.start(1, shards=2, replica=1)
        servers.publish(1)
        eventually(lambda: servers.served(1) == {2}, what="all replicas serve it")
        assert [instance.name for instance in process.transfer.instances] == ["0_0", "0_1", "1_0", "1_1"]
        for shard in range(2):
            servers.agents.pop((1, shard, 1)).close()
        servers.publish(1)
        eventually(lambda: len(process.transfer.instances) == 2, what="two instances")
        version = store.delta(keys_from(100, 50), keys_from(30, 5))
        eventually(in_service(process, version), what=f"version {version} in service")


def test_a_rollback_needs_a_version_that_every_layout_has_loaded(servers: LayoutServers, store: VersionStore) -> None:
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
        version = store.delta(keys_from(100, 50), keys_from(30, 5))
        eventually(in_service(process, version), what=f"version {version} in service")
        servers.start(2, shards=3)
        servers.publish(1, 2)
        eventually(has_switched(process, 2), what="a layout that serves")
        with pytest.raises(VersionError, match="version 2 is not loaded on any server of some shard"):
            process.transfer.rollback()
        last = store.delta(keys_from(10, 5), keys_from(40, 5))
        eventually(in_service(process, last), what=f"version {last} in service")
        assert process.transfer.rollback().version == version
        assert (servers.served(1), servers.served(2)) == ({version}, {version})


def test_transfer_waits_for_a_file_of_layouts_that_is_not_there_yet(
    servers: LayoutServers, store: VersionStore
) -> None:
    servers.file.unlink()
    with transferring(servers, store) as process:
        assert process.transfer.instances == []
        servers.publish(1)
        eventually(in_service(process, 2), what="version 2 in service")


@pytest.mark.heavy
@pytest.mark.parametrize("point", RESHARDING)
def test_transfer_killed_while_a_layout_joins_goes_on_from_there(
    servers: LayoutServers, store: VersionStore, point: str
) -> None:
    with transferring(servers, store) as process:
        eventually(in_service(process, 2), what="version 2 in service")
    servers.start(2, shards=3)
    directory = servers.directory.parent
    config = directory / "transfer.yaml"
    keys = {"donefile_address": str(store.path), "output_address": str(directory / "builds"), "dict_name": NAME}
    keys |= {"tmp_address": str(directory / "state"), "layouts": str(servers.file), "interval": 0.1}
    config.write_text(yaml.safe_dump(keys), encoding="utf-8")
    env = {**ENVIRONMENT, "CLICKLINE_TOKEN": TOKEN.decode(), VARIABLE: point}
    ready = directory / "ready.json"
    killed = start("transfer", config, "--listen", "127.0.0.1:0", "--ready-file", ready, env=env)
    try:
        eventually(ready.exists, what="a transfer that runs")
        servers.publish(1, 2)
        killed.communicate(timeout=120)
        assert killed.returncode == -signal.SIGKILL, point
    finally:
        if killed.poll() is None:
            os.kill(killed.pid, signal.SIGKILL)
            killed.communicate()
    assert servers.served(2) == {0}, "nothing is switched before it is in the ledger"
    with transferring(servers, store) as process:
        eventually(has_switched(process, 2), what="a layout that serves")
        servers.check_rows(2, 2, store)
