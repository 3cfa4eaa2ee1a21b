"""Train a job, given as JSON, and print this process's peak resident memory: {"rows", "peak_mib"}.

VmHWM starts anew with the program, unlike the figure that wait4 gives, which remembers the parent's size before exec.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clickline import Job, train_job


def main(job: str) -> None:
    result = train_job(Job.model_validate(json.loads(job)), fresh=True)
    status = Path("/proc/self/status").read_text(encoding="ascii")
    kib = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    print(json.dumps({"rows": result.rows, "peak_mib": kib / 1024}))


if __name__ == "__main__":
    main(sys.argv[1])
