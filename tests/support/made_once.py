"""What takes long to make and is only read afterwards is made once, however many workers the tests run on."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A directory that `make` has filled, in the first process that wanted it; others wait for that. Leave it as it is.

    One whose making failed is made again: whatever a directory without the mark beside it holds is not to be trusted.
    """
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # each worker has a directory of its own in that of the whole run
        root = root.parent
    place, done = root / f"shared-{name}", root / f"shared-{name}.done"
    with (root / f"shared-{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            made = 0
            while place.exists():
                made += 1
                place = root / f"shared-{name}.{made}"
            place.mkdir()
            make(place)
            done.write_text(place.name, encoding="utf-8")
        return root / done.read_text(encoding="utf-8")


def clickline_wheel(factory: pytest.TempPathFactory) -> Path:
    """A wheel of this tree with the native core that is installed already: to compile it takes minutes."""

    def make(directory: Path) -> None:
        settings = {"wheel.cmake": "false"}
        build = f"import sys; from scikit_build_core.build import build_wheel; build_wheel(sys.argv[1], {settings})"
        subprocess.run([sys.executable, "-c", build, directory], cwd=ROOT, check=True, capture_output=True)
        (wheel,) = directory.glob("*.whl")
        from clickline import _native  # here: not every test needs it

        core = Path(_native.__file__)
        with zipfile.ZipFile(wheel, "a") as packed:
            packed.write(core, f"clickline/{core.name}")

    (wheel,) = made_once(factory, "wheel", make).glob("*.whl")
    return wheel
