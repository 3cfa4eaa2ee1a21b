"""What is shown each second, where there is no terminal to show it in place."""

from __future__ import annotations

from typing import Any

import pytest
from rich.text import Text

from clickline.cli.shared import live_page


def test_every_new_page_is_printed_once_and_the_last_is_given_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_page, "_EVERY", 0.0)
    seen = iter([{"step": 1}, {"step": 1}, {"step": 2}, {"step": 1}, {"step": 3}])
    printed: list[str] = []

    def look() -> dict[str, Any]:
        printed.append(capsys.readouterr().out)  # what came before this look: pages do not wait for the end
        return next(seen)

    last = live_page.watch(look, page=lambda one: Text(f"step {one['step']}"), over=lambda one: one["step"] == 3)
    assert last == {"step": 3}
    assert [*printed, capsys.readouterr().out] == ["", "step 1\n", "", "step 2\n", "step 1\n", "step 3\n"]
