"""A process that serves does not load PyTorch."""

from __future__ import annotations

import subprocess
import sys


def test_serving_does_not_import_torch() -> None:
    program = (
        "import sys, clickline.serve.predictor.predictor\n"
        "print(*[name for name in ('torch', 'clickline.train', 'clickline.models', 'clickline.ps')"
        " if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == ""
