"""python -m clickline.config.reference [DIRECTORY]: writes the reference of the job."""

from __future__ import annotations

import sys
from pathlib import Path

from clickline.config.reference import JOB

for file in JOB.write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")):
    print(file)
