"""How members are found: by a list, by a file that changes, by the names of a headless service.

Without a cluster there are no names of pods, so they come from a stand-in for the resolver; one test asks the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from clickline.cube.layouts.layout import (
    Layout,
    LayoutsUnknownError,
    Replica,
    ordinal_of,
    place_of,
    shard_of_pod,
    single_layout,
)
from clickline.cube.layouts.layout_settings import ServiceSettings
from clickline.cube.layouts.layouts_file import LayoutsFile, write_layouts
from clickline.cube.layouts.service_layout import ServiceLayout, resolves
from clickline.errors import JobError

NAMES = "tcp:cube-{ordinal}.cube.shop.svc:8027"


def layout(epoch: int, *, shards: int, replicas: int = 1) -> Layout:
    """Members at ports that tell epoch, shard and replica."""
    return Layout(
        epoch,
        tuple(
            tuple(Replica(f"http://a:{epoch}{s}{r}", f"tcp:a:{epoch}{s}{r}", "/cube") for r in range(replicas))
            for s in range(shards)
        ),
    )


def known(ordinals: Collection[int]) -> Callable[[str], bool]:
    """A resolver that knows the pods with these ordinals, of which there may be others later."""
    return lambda host: host in {f"cube-{ordinal}.cube.shop.svc" for ordinal in ordinals}


def test_one_more_replica_of_each_shard_leaves_every_ordinal_its_shard() -> None:
    before = {ordinal: place_of(ordinal, shards=3) for ordinal in range(6)}
    assert before == {0: (0, 0), 1: (1, 0), 2: (2, 0), 3: (0, 1), 4: (1, 1), 5: (2, 1)}
    assert all(
        ordinal_of(shard=shard, replica=replica, shards=3) == ordinal for ordinal, (shard, replica) in before.items()
    )


@pytest.mark.parametrize(("text", "shard"), [("1", 1), ("cube-0", 0), ("cube-3", 1), ("my-cube-12", 0)])
def test_a_server_takes_its_shard_from_a_number_or_from_the_name_of_its_pod(text: str, shard: int) -> None:
    assert shard_of_pod(text, shards=2) == shard


@pytest.mark.parametrize("text", ["2", "cube", "cube-x", "", "-1x"])
def test_a_name_without_an_ordinal_is_refused(text: str) -> None:
    with pytest.raises(JobError, match="shard"):
        shard_of_pod(text, shards=2)


def test_a_file_is_read_again_when_it_was_replaced(tmp_path: Path) -> None:
    path = tmp_path / "layouts.json"
    source = LayoutsFile(path)
    with pytest.raises(LayoutsUnknownError, match=r"layouts\.json"):
        source.layouts()
    write_layouts(path, [layout(1, shards=2)])
    assert source.layouts() == (layout(1, shards=2),)
    write_layouts(path, [layout(2, shards=3, replicas=2), layout(1, shards=2)])
    assert source.layouts() == (layout(1, shards=2), layout(2, shards=3, replicas=2))


def test_a_file_behind_a_link_that_changes_is_read_again(tmp_path: Path) -> None:
    for epoch in (1, 2):
        write_layouts(tmp_path / f"{epoch}.json", [layout(epoch, shards=epoch)])
    link = tmp_path / "layouts.yaml"
    link.symlink_to("1.json")
    source = LayoutsFile(link)
    assert source.layouts()[-1].epoch == 1
    (tmp_path / "new").symlink_to("2.json")
    (tmp_path / "new").replace(link)
    assert source.layouts()[-1].epoch == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("layouts: [{epoch: 1}]", "either shards or a service"),
        ("layouts: []", "layouts"),
        ("layouts: [{epoch: 1, service: {cube: 'tcp:cube:1', shards: 2}}]", "must have {ordinal}"),
        ("layouts: [{epoch: 1, service: {cube: 'tcp:c-{pod}:1', shards: 2}}]", "must have {ordinal}"),
        ("{", "cannot be read"),
    ],
)
def test_a_file_that_is_wrong_says_what(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "layouts.yaml"
    path.write_text(text)
    with pytest.raises(LayoutsUnknownError, match=problem):
        LayoutsFile(path).layouts()


def test_layouts_that_share_an_epoch_or_a_server_are_refused(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="two layouts have epoch 1"):
        write_layouts(tmp_path / "l.json", [layout(1, shards=1), layout(1, shards=2)])
    with pytest.raises(JobError, match="named twice"):
        write_layouts(tmp_path / "l.json", [layout(1, shards=1), Layout(2, layout(1, shards=1).shards)])


def test_members_of_a_service_are_those_whose_names_resolve() -> None:
    settings = ServiceSettings(cube=NAMES, agent="cube-{ordinal}.cube.shop.svc:8001", shards=2)
    (found,) = ServiceLayout(settings, resolve=known(range(4))).layouts()
    assert found.servers == [
        ["tcp:cube-0.cube.shop.svc:8027", "tcp:cube-2.cube.shop.svc:8027"],
        ["tcp:cube-1.cube.shop.svc:8027", "tcp:cube-3.cube.shop.svc:8027"],
    ]
    assert found.shards[1][0].agent == "http://cube-1.cube.shop.svc:8001"


def test_members_of_a_service_come_and_go_and_no_shard_is_left_without_any() -> None:
    ordinals = {0, 1}
    service = ServiceLayout(ServiceSettings(cube=NAMES, shards=2), resolve=known(ordinals), every=0.0)
    assert [len(replicas) for replicas in service.layouts()[0].shards] == [1, 1]
    ordinals |= {2, 3, 4}
    assert [len(replicas) for replicas in service.layouts()[0].shards] == [3, 2]
    ordinals -= {1, 3}
    assert [len(replicas) for replicas in service.layouts()[0].shards] == [3, 2], "shard 1 had none left"


def test_a_name_server_that_cannot_be_asked_changes_nothing() -> None:
    answers: list[bool | OSError] = [True, False, False]

    def resolve(_: str) -> bool:
        answer = answers.pop(0) if answers else OSError("no name server")
        if isinstance(answer, OSError):
            raise answer
        return answer

    service = ServiceLayout(ServiceSettings(cube=NAMES, shards=1), resolve=resolve, every=0.0)
    before = service.layouts()
    assert service.layouts() == before
    with pytest.raises(LayoutsUnknownError, match="cannot be resolved now"):
        ServiceLayout(ServiceSettings(cube=NAMES, shards=1), resolve=resolve).layouts()


def test_names_by_shard_and_replica_and_a_count_that_is_given_need_no_resolver() -> None:
    settings = ServiceSettings(cube="tcp:cube-{shard}-{replica}.cube-{shard}:8027", shards=2, replicas=2)
    (found,) = ServiceLayout(settings, resolve=known(())).layouts()
    assert found.servers[1] == ["tcp:cube-1-0.cube-1:8027", "tcp:cube-1-1.cube-1:8027"]


def test_the_resolver_of_the_machine_knows_localhost_and_no_invalid_name() -> None:
    assert resolves("localhost")
    try:
        assert not resolves("cube-0.invalid")
    except OSError:
        pytest.skip("there is no name server here, so that nothing can be said about a name")


def test_a_list_of_servers_is_a_layout() -> None:
    assert single_layout([[Replica("http://a:1", "tcp:a:2")]]).servers == [["tcp:a:2"]]
