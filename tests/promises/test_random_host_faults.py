"""Random faults on a run over two hosts that share nothing, by a seed that is printed: it ends, and its books balance.

CLICKLINE_CHAOS_SEED sets the seed. tests/support/hosts/random_host_faults.py has the schedule.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from support.eventually import eventually
from support.hosts.random_host_faults import ROWS, RandomHostFaults, job_on_hosts
from support.hosts.ssh_hosts import ssh_hosts, unavailable
from support.processes import write_job

pytestmark = pytest.mark.heavy
SEED = int(os.environ.get("CLICKLINE_CHAOS_SEED", "1"))
EPOCHS = 4
FAULTS = int(os.environ.get("CLICKLINE_HOST_FAULTS", "8"))


@pytest.mark.parametrize("strategy", ["async", "sync"])
def test_a_run_over_two_hosts_ends_with_balanced_books(tmp_path: Path, strategy: str, request) -> None:
    if why := unavailable():
        pytest.skip(why)
    print(f"\nCLICKLINE_CHAOS_SEED={SEED}")
    with ssh_hosts(tmp_path / "ssh") as hosts:
        workspace = tmp_path / "workspace"
        workspace.mkdir()
        job = write_job(
            workspace / "job.yaml", job_on_hosts(hosts, tmp_path, strategy=strategy, seed=SEED, epochs=EPOCHS)
        )
        launcher = hosts.start("train", job, "--on", "ssh", "--json")
        status = f"{hosts.private}/jobs/runs/random/status.json"
        eventually(
            lambda: b'"phase": "training"' in hosts.on("one", f"cat {status} || true"), process=launcher, seconds=120
        )
        faults = RandomHostFaults(hosts, launcher, seed=SEED, most=FAULTS)
        faults.run()
        out, err = launcher.communicate(timeout=300)
        print(dict(faults.done))
        assert launcher.returncode == 0, (faults.done, out, err[-5000:])
        result = json.loads(out)
        books = {name: result[name] for name in ("rows", "repeated_rows", "lost_pushes", "set_aside")}
        assert faults.done.total() >= 3, "the run was too short for its faults"
        assert result["rows"] == EPOCHS * ROWS + result["repeated_rows"], books
        assert result["set_aside"] == [], books
        assert strategy != "sync" or result["repeated_rows"] == 0, books
        eventually(lambda: not hosts.processes("one") and not hosts.processes("other"), seconds=60)
    summary = {"runs": 1, "faults": faults.done.total(), "completed": 1, "rows": result["rows"], "lost": 0}
    summary |= {"repeated": result["repeated_rows"], "pushes": result["lost_pushes"]}
    request.node.user_properties.append(("cluster run", summary))
