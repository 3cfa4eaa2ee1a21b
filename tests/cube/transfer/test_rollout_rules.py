"""When a rollout goes on, and when it waits; what transfer remembers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clickline.compat.cube.cube_donefiles import Product
from clickline.compat.cube.product_source import chain_of
from clickline.compat.cube.transfer_conf import read_transfer
from clickline.cube.agent_messages import CubeServerStatus
from clickline.cube.builder.version_source import ChainLink
from clickline.cube.layouts.layout import Replica
from clickline.cube.transfer.instance import Instance
from clickline.cube.transfer.ledger import Deployment, Ledger, Phase
from clickline.cube.transfer.rollout_rule import Decision, judge
from clickline.cube.transfer.transfer_settings import plan_of
from clickline.errors import JobError, VersionError

NOW = 1000.0


def instance(shard: int, copy: int, *, loaded: bool, trouble: float | None = None, dead: bool = False) -> Instance:
    one = Instance(shard, copy, Replica("http://a:1", "tcp:a:2"))
    one.trouble_since, one.dead = trouble, dead
    one.server = CubeServerStatus(loaded=(7,) if loaded else ())
    return one


def answer(*instances: Instance, refusals_count: bool = False):
    return judge(instances, lambda one: one.has_loaded(7), patience=5.0, now=NOW, refusals_count=refusals_count)


def test_all_have_made_it() -> None:
    assert answer(instance(0, 0, loaded=True), instance(1, 0, loaded=True)).decision is Decision.GO


def test_the_slow_are_waited_for() -> None:
    verdict = answer(instance(0, 0, loaded=True), instance(0, 1, loaded=False))
    assert (verdict.decision, verdict.behind) == (Decision.WAIT, ("0_1",))


@pytest.mark.parametrize(("since", "expected"), [(NOW - 4.9, Decision.WAIT), (NOW - 5.0, Decision.GO)])
def test_the_dead_are_waited_for_so_long(since: float, expected: Decision) -> None:
    dead = instance(0, 1, loaded=False, trouble=since, dead=True)
    assert answer(instance(0, 0, loaded=True), dead).decision is expected


def test_a_shard_without_any_is_waited_for_for_ever() -> None:
    dead = instance(1, 0, loaded=False, trouble=0.0, dead=True)
    verdict = answer(instance(0, 0, loaded=True), instance(0, 1, loaded=True), dead)
    assert (verdict.decision, verdict.bare) == (Decision.WAIT, (1,))


def test_a_refused_switch_is_not_done_without() -> None:
    refusing = instance(0, 1, loaded=False, trouble=0.0, dead=False)
    assert answer(instance(0, 0, loaded=True), refusing).decision is Decision.GO
    assert answer(instance(0, 0, loaded=True), refusing, refusals_count=True).decision is Decision.WAIT


def link(version: int, parent: int | None = None, base: int | None = None) -> ChainLink:
    return ChainLink(version, parent, base or version, f"/in/{version}", "0" * 64)


def test_what_is_remembered_comes_back(tmp_path: Path) -> None:
    ledger = Ledger.read(tmp_path)
    for version in (1, 2, 3, 2):
        done = Deployment(chain=[link(version)], phase=Phase.FINISHED, number=version)
        ledger.end(done)
        ledger.current = done
    ledger.rolling = Deployment(chain=[link(3), link(4, 3, 3)])
    ledger.rolling.enter(Phase.LOADING)
    ledger.number, ledger.held = 9, 3
    ledger.save()
    again = Ledger.read(tmp_path)
    assert (again.number, again.held, again.rolling, again.past) == (9, 3, ledger.rolling, ledger.past)
    assert [one.version for one in again.deployed(2)] == [3, 2]


def test_what_an_earlier_release_remembered_is_understood(tmp_path: Path) -> None:
    """Phases had Cube's names in the file, and a link had Cube's words for its version and base."""
    chain = [{"version": 3, "parent": None, "base": 3, "id": "3", "key": "3", "input": "/in/3", "digest": "0" * 64}]
    times = {"create_time": 1.0, "finish_time": 2.0, "behind": ["0_1"]}
    done = {"chain": chain, "phase": "Finished", "number": 4, **times, "seconds": {"Enabling": 1.0, "Finished": 2.0}}
    rolling = {"chain": chain, "phase": "Enabling", "number": 5, **times, "seconds": {"Reloading": 0.5}}
    state = {"number": 5, "current": done, "rolling": rolling, "past": [done], "held": 0, "metas": {}}
    (tmp_path / "transfer.json").write_text(json.dumps(state))
    ledger = Ledger.read(tmp_path)
    assert ledger.current is not None and ledger.rolling is not None
    assert (ledger.current.phase, ledger.rolling.phase) == (Phase.FINISHED, Phase.SWITCHING)
    assert ledger.current.seconds == {Phase.SWITCHING: 1.0, Phase.FINISHED: 2.0}
    assert (ledger.current.version, ledger.current.link.input, ledger.current.behind) == (3, "/in/3", ["0_1"])
    ledger.save()
    assert json.loads((tmp_path / "transfer.json").read_text())["rolling"]["phase"] == "switching"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"number": "x"}', '{"number": 1, "current": {"chain": []}}'])
def test_a_damaged_memory_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "transfer.json").write_text(content)
    with pytest.raises(VersionError, match=r"transfer\.json"):
        Ledger.read(tmp_path)


def test_products_of_cube_make_a_chain() -> None:
    bases = [Product("base", 10, 10, "/a"), Product("base", 20, 20, "/b")]
    patches = [
        Product("patch", 11, 10, "/c"),
        Product("patch", 21, 20, "/d"),
        Product("patch", 23, 20, "/e"),
        Product("patch", 22, 20, "/late"),
    ]
    found = chain_of(bases, patches)
    assert [(one.version, one.parent, one.base, one.input) for one in found] == [
        (20, None, 20, "/b"),
        (21, 20, 20, "/d"),
        (23, 21, 20, "/e"),
    ]
    assert chain_of([], patches) == []


CONF = """
[default]
dict_name: test_dict
mode: base_delta
download_mode: http
wget_port: 8009
buildtool_local: /home/cube-builder   # not used
donefile_address: http://10.0.0.9:8080/data/ctr_cube/donefile
output_address: /tmp/output
tmp_address: /tmp/tmp
shard_num: 2
copy_num: 1
deploy_path: /cube
transfer_address: 10.0.0.5
[cube_agent]
agent0_0: 10.0.0.1:8001
cube0_0: 10.0.0.1:8027:/cube
agent1_0: 10.0.0.2:8001
cube1_0: 10.0.0.2:8027:/cube
"""


def test_transfer_conf(tmp_path: Path) -> None:
    (tmp_path / "transfer.conf").write_text(CONF)
    keys = read_transfer(tmp_path / "transfer.conf")
    plan = plan_of(keys, interval=2.0, patience=None)
    assert (plan.name, plan.interval, plan.patience) == ("test_dict", 2.0, 5.0)
    (layout,) = plan.layouts.layouts()
    assert len(layout.shards) == 2
    assert layout.shards[1] == (Replica("http://10.0.0.2:8001", "tcp:10.0.0.2:8027", "/cube"),)
    assert (keys.wget_port, keys.transfer_address) == (8009, "10.0.0.5")


@pytest.mark.parametrize("text", ["", "a: 1", "- 1", "dict_name: ../x", "{", "dict_name: d\nshards: []"])
def test_a_wrong_yaml_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(JobError, match=r"t\.yaml"):
        read_transfer(tmp_path / "t.yaml")


def test_all_mistakes_of_a_yaml_are_named_with_their_lines(tmp_path: Path) -> None:
    text = """dict_name: ../ctr
donefile_address: versions
output_adress: /builds
tmp_address: /tmp
shards:
  - - {agent: "http://[", cube: "tcp:a:1"}
    - {agent: "a:1", cub: "tcp:b:1"}
mode: base_deltas
keep: 0
"""
    (tmp_path / "t.yaml").write_text(text)
    with pytest.raises(JobError) as failure:
        read_transfer(tmp_path / "t.yaml")
    assert [(one.key, one.line) for one in failure.value.errors] == [
        ("dict_name", 1),
        ("output_address", 1),
        ("output_adress", 3),
        ("shards[0][0].agent", 6),
        ("shards[0][1].cube", 7),
        ("shards[0][1].cub", 7),
        ("mode", 8),
        ("keep", 9),
    ]
    assert "did you mean output_address?" in str(failure.value)


def test_a_yaml_is_read_as_every_other_one(tmp_path: Path) -> None:
    """By YAML 1.2: `no` is a word, and a deployment may be called so."""
    text = "dict_name: no\ndonefile_address: v\noutput_address: o\ntmp_address: t\ninterval: 1e1\n"
    (tmp_path / "t.yaml").write_text(text + "shards: [[{agent: a, cube: 'tcp:a:1'}]]")
    keys = read_transfer(tmp_path / "t.yaml")
    assert (keys.dict_name, keys.interval) == ("no", 10.0)
