"""The verb `clickline run`, called as `python -m paddlerec.run` was: python -m clickline.run -m config.yaml."""

from __future__ import annotations

import sys

from clickline.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "run")
    main()
