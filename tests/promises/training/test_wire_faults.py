"""A bad network between any two of a run: every row is learned from, and exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clusters import Parts, settings_for, shows_of
from support.faulty_proxy import Chances, UnreliableProxy
from support.programs import PROGRAMS
from support.training.gated_data import SLOTS, gated_settings, write_gated

pytestmark = pytest.mark.heavy
WITHOUT_MECHANISM = [str(PROGRAMS / "disabled_mechanism.py")]
ROWS = 6 * 500


@pytest.fixture
def behind_proxy(tmp_path, assemble) -> Iterator:
    proxies: list[UnreliableProxy] = []

    def make(chances: Chances, name: str) -> tuple[Parts, UnreliableProxy]:
        def seen_as(target: str) -> str:
            proxies.append(UnreliableProxy(target, chances, seed=7))
            return proxies[-1].address

        pattern = write_gated(tmp_path / "data", files=6, rows=500, orders={})
        settings = settings_for({"train": "", "test": ""}, tmp_path, name, cluster={"pservers": 1, "transport": "tcp"})
        run = assemble(gated_settings(settings, pattern), seen_as=seen_as, rows=ROWS)
        return run, proxies[0]

    yield make
    for proxy in proxies:
        proxy.close()


def test_every_fault_at_once(behind_proxy):
    run, proxy = behind_proxy(
        Chances(drop=0.01, delay=0.02, cut=0.01, duplicate=0.01, garble=0.01, cut_reply=0.02), "chaos"
    )
    run.start_all()
    result = run.ends()
    run.faults = proxy.done.total()
    print(f"\nfaults {dict(proxy.done)}, retries {result['retries']}")
    assert min(proxy.done[kind] for kind in ("drop", "delay", "cut", "duplicate", "garble", "cut_reply")) > 0
    assert result["retries"] > 0
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"]) == (ROWS, 0, 0)
    assert set(shows_of(run.checkpoints()[-1]).values()) == {float(ROWS * SLOTS)}


def test_every_fault_also_on_the_way_to_the_coordinator(behind_proxy):
    """Joining, signs of life, leases and reports: an answer that is lost must not be a lease that is lost."""
    run, servers = behind_proxy(
        Chances(drop=0.01, cut=0.01, duplicate=0.005, garble=0.01, cut_reply=0.02), "everywhere"
    )
    coordinator_proxy = UnreliableProxy(
        run.coordinator, Chances(drop=0.02, delay=0.02, cut=0.02, duplicate=0.02, garble=0.02, cut_reply=0.1), seed=11
    )
    run.shared["CLICKLINE_COORDINATOR"] = coordinator_proxy.address
    run.start_all()
    result = run.ends()
    coordinator_proxy.close()
    run.faults = servers.done.total() + coordinator_proxy.done.total()
    print(f"\nfaults before the coordinator {dict(coordinator_proxy.done)}, before servers {dict(servers.done)}")
    assert min(coordinator_proxy.done[kind] for kind in ("drop", "cut", "duplicate", "garble", "cut_reply")) > 0
    assert (result["rows"], result["repeated_rows"], result["lost_pushes"]) == (ROWS, 0, 0)
    assert result["set_aside"] == []
    assert set(shows_of(run.checkpoints()[-1]).values()) == {float(ROWS * SLOTS)}


def test_without_exactly_once_rows_are_learned_twice(behind_proxy, monkeypatch):
    monkeypatch.setenv("FAULT", "once")
    run, proxy = behind_proxy(Chances(cut_reply=0.03), "twice")
    run.start("coordinator")
    run.start("pserver", 0, program=WITHOUT_MECHANISM)
    for rank in range(2):
        run.start("trainer", rank)
    result = run.ends()
    run.faults = proxy.done.total()
    assert proxy.done["cut_reply"] > 0
    assert result["rows"] == ROWS
    assert max(shows_of(run.checkpoints()[-1]).values()) > ROWS * SLOTS
