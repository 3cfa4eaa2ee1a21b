"""`make up` as somebody types it first: from a bare system to a prediction, then Ctrl+C. Needs nothing but Python.

Run where nothing has been set up yet (bare_root.sh makes such a root). It fails if the command does, if nothing is
predicted, or if it leaves a process behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PREDICTIONS = re.compile(r"^predictions  (http://\S+)", flags=re.MULTILINE)
PAGE_ENDS = "stops it"
_ENDS_WITHIN = 120.0


def main() -> None:
    began = time.monotonic()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, also by children, if a shell put us behind an &
    # A session of its own, so that the signal below goes to make and all it has started, as from a terminal.
    process = subprocess.Popen(
        ["make", "up"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        page = _read_page(process)
        _ask(page)
        took = time.monotonic() - began
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=_ENDS_WITHIN)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    left = _session(process.pid) + [str(path) for path in Path("runs").glob("suite.json")]
    if left:
        sys.exit(f"make up: Ctrl+C has left something: {left}")
    print(f"make up: first prediction after {took:.0f} s with all set-up, and stopped in order")


def _read_page(process: subprocess.Popen[str]) -> str:
    """What it prints until it says how to stop it."""
    page = ""
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        page += line
        if PAGE_ENDS in line:
            return page
    sys.exit(f"make up: ended with code {process.wait()} before it had predicted anything")


def _ask(page: str) -> None:
    address = PREDICTIONS.search(page)
    if address is None:
        sys.exit("make up: its page names no address for predictions")
    body = json.dumps({"instances": [{"C1": "68fd1e64", "I1": 3}]}).encode()
    with urllib.request.urlopen(f"{address[1]}/predict", data=body, timeout=30) as answer:  # noqa: S310
        (probability,) = json.load(answer)["predictions"]
    if not 0 < probability < 1:
        sys.exit(f"make up: predicted {probability!r}, which is not a probability")


def _session(leader: int) -> list[str]:
    """The processes of a session that are left."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = stat.read_text().rsplit(")", 1)
        except OSError:  # gone
            continue
        state, _parent, _group, session = rest.split()[:4]
        if int(session) == leader and state != "Z":
            found.append(name)
    return found


if __name__ == "__main__":
    main()
