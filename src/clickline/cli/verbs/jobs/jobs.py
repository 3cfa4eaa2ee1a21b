"""`clickline jobs`: what was started from here, on this machine and on others."""

from __future__ import annotations

import time

import msgspec
from rich.table import Table

from clickline.cli.shared.output import AsJson, print_json, results, say


def jobs(as_json: AsJson = False) -> None:
    """List the jobs that were started from here, whichever launcher started them, the newest last.

    Example: clickline jobs
    """
    from clickline.launch.job_records import list_records, records_directory

    records = list_records()
    if as_json:
        print_json([{**msgspec.to_builtins(record), "phase": record.phase_now.value} for record in records])
        return
    if not records:
        say(f"no jobs in {records_directory()}: `clickline train job.yaml` starts one")
        return
    table = Table("job", "run", "launcher", "phase", "started", "hosts", box=None)
    for record in records:
        started = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.started))
        hosts = ", ".join(entry.host for entry in record.hosts)
        table.add_row(record.job, record.name, record.launcher, record.phase_now.value, started, hosts)
    results().print(table)
