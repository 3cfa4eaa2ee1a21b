"""Ranks on one machine cannot be reached from another: neither their store nor what they exchange with."""

from __future__ import annotations

import time
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest

from support.processes import small_settings, start, write_job

pytestmark = pytest.mark.heavy
LISTENING = "0A"


def descendants(pid: int) -> list[int]:
    """A process and all that it has started."""
    children = [int(each) for task in Path(f"/proc/{pid}/task").glob("*/children") for each in task.read_text().split()]
    return [pid, *(each for child in children for each in descendants(child))]


def listening_addresses(pids: list[int]) -> list[IPv4Address | IPv6Address]:
    """Local addresses of the TCP sockets on which any of these processes listens."""
    inodes = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            name = str(link.readlink())
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and fields[9] in inodes:
                raw = bytes.fromhex(fields[1].rpartition(":")[0])
                found.append(ip_address(b"".join(raw[n : n + 4][::-1] for n in range(0, len(raw), 4))))
    return found


def test_on_one_machine_ranks_listen_on_loopback_only(criteo, tmp_path):
    settings = {**small_settings(criteo, tmp_path), "strategy": "collective", "cluster": {"trainers": 2}}
    settings["train"] = {"batch_size": 100, "log_every": 5, "epochs": 500}
    job = write_job(tmp_path / "job.yaml", settings)
    process = start("train", job)
    metrics = tmp_path / "runs" / "small" / "metrics.jsonl"
    until = time.monotonic() + 100
    try:
        while not metrics.is_file() or not metrics.read_text():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until, "no step was taken"
            time.sleep(0.05)
        pids = descendants(process.pid)
        found = listening_addresses(pids)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert len(pids) >= 3
    assert len(found) >= 3, "a store and what each rank exchanges with"
    assert [str(each) for each in found if not each.is_loopback] == []
