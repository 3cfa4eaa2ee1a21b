"""The command line with all its verbs, for pages and tests that look at each."""

from __future__ import annotations

from clickline.cli.application import application

app = application()
