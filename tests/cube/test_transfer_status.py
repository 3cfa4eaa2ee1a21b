"""Transfer's own status: what is in service, how far a rollout is, and who is in trouble."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest

from clickline.cube.transfer.instance import InstanceState
from clickline.cube.transfer.ledger import Phase
from clickline.cube.transfer.transfer_status import InstanceStatus, RolloutStatus, TransferStatus
from support.cubes.local_delivery import OneDelivery
from support.eventually import eventually
from support.versions.version_stores import keys_from


@pytest.fixture
def delivery(tmp_path: Path) -> Iterator[OneDelivery]:
    with OneDelivery(tmp_path) as found:
        yield found


def status(delivery: OneDelivery) -> TransferStatus:
    assert delivery.process is not None
    answer = httpx.get(f"{delivery.process.web.address}/status", trust_env=False)
    return msgspec.json.decode(answer.content, type=TransferStatus)


def test_a_version_on_its_way_and_in_service(delivery: OneDelivery) -> None:
    version = delivery.store.base(keys_from(1, 50))
    delivery.start_transfer()
    delivery.await_build(version)
    eventually(lambda: status(delivery).instances[0].state is InstanceState.DEAD, what="an agent that is missing")
    before = status(delivery)
    assert (before.version, before.switch, before.problem, before.held) == (0, 0, "", 0)
    assert before.rollout == RolloutStatus(version, Phase.DOWNLOADING, downloaded=0, loaded=0, switched=0)
    assert before.instances[0].message
    delivery.start_agent()
    eventually(lambda: status(delivery).version == version, what="a version in service")
    after = status(delivery)
    assert (after.switch, after.rollout) == (1, None)
    assert after.instances == [InstanceStatus("0_0", InstanceState.IN_SERVICE, version, "")]
