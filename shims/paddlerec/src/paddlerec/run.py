"""`python -m paddlerec.run -m config.yaml [-b backend.yaml]`: what `python -m clickline.run` does."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("clickline.run", run_name="__main__")
