"""Commands of a page of the documentation, run as a reader would: line by line, in a shell, somewhere of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from support.processes import ENVIRONMENT

ROOT = Path(__file__).parents[2]


def shell_blocks(page: str, *, heading: str) -> list[list[str]]:
    """The lines of each ```sh block below a heading, up to the next one of its kind."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert found, f"{page} has no '## {heading}'"
    blocks = re.findall(r"^```sh\n(.*?)^```", found[1], flags=re.DOTALL | re.MULTILINE)
    return [block.splitlines() for block in blocks]


class Reader:
    """Somebody at a terminal, to whom `clickline` is this checkout's. `url` is where the page says 127.0.0.1:8010."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.url = directory, "http://127.0.0.1:8010"
        commands = directory / "bin"
        commands.mkdir()
        program = commands / "clickline"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m clickline "$@"\n')
        program.chmod(0o755)
        path = os.pathsep.join([str(commands), ENVIRONMENT["PATH"]])
        self._environment = {**ENVIRONMENT, "PATH": path, "TMPDIR": str(directory / "tmp")}

    def types(self, line: str) -> str:
        """What the command prints; it must succeed."""
        if "8010" not in self.url:  # taken by somebody else on this machine, and the page says what then
            line = line.replace("http://127.0.0.1:8010", self.url)
            line += f" --url {self.url}" if line.startswith("clickline predict") else ""
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=self.directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout
