"""Libraries that only decisions are measured with: installed beside ours, and used by this interpreter.

They are installed once into .bench/decisions from the versions in requirements.txt; CLICKLINE_DECISIONS=DIRECTORY names
another place, which is used as it is. Unlike the peers of other benchmarks they are called with our own code in the
same process, so an environment of their own would not do; nothing is installed into .venv.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from peers import BENCH, output_of
from rounds import console

VARIABLE = "CLICKLINE_DECISIONS"
REQUIREMENTS = Path(__file__).parent / "requirements.txt"


def libraries() -> Path:
    """The directory to put on the path; installs it if need be."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    home, wanted = BENCH / "decisions", REQUIREMENTS.read_text(encoding="utf-8")
    mark = home / "installed.txt"
    if not mark.exists() or mark.read_text(encoding="utf-8") != wanted:
        console.print(f"installing libraries into {home} (once, about 30 MB)", highlight=False)
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-deps", "--upgrade"]
        output_of([*pip, "--target", str(home), "-r", str(REQUIREMENTS)])
        mark.write_text(wanted, encoding="utf-8")
    return home


def use_libraries() -> None:
    """Make them importable here. Ours come first: none of them may replace a dependency."""
    sys.path.append(str(libraries()))
