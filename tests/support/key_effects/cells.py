"""A cell of the walk: one key under one strategy, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline.config.loading.reader import Draft, read_draft
from clickline.config.validation.effects import EFFECTS
from clickline.errors import ClicklineError
from clickline.train.preflight import check_draft
from support.key_effects.probes import GIVEN, SERVERS, TESTS, VALUES

TREE = Path(__file__).parents[2]
SLOT = 0
"""Which element of a list a key such as features.slots[].pooling is tried at."""


@dataclass(frozen=True, slots=True)
class Cell:
    key: str
    strategy: str
    verdict: str
    """effect, refused, reported or silent."""
    proof: str

    def __str__(self) -> str:
        return f"{self.key:<42} {self.strategy:<11} {self.verdict:<9} {self.proof}"


def overrides_of(key: str, strategy: str, *, changed: bool = True) -> list[str]:
    """The job of a cell, as for --set, on top of the base job: with the key's other value, or as it is without."""
    settings: dict[str, Any] = {"strategy": strategy}
    settings["cluster.pservers"] = int(strategy in SERVERS)
    settings["cluster.trainers"] = 1 if strategy == "single" else 2
    settings |= GIVEN.get(key, {})
    if changed:
        settings[key] = VALUES[key]
    return [f"{name.replace('[]', f'[{SLOT}]')}={json.dumps(value)}" for name, value in settings.items()]


def judged(base: Path, key: str, strategy: str) -> Cell | None:
    """The cell, if the checks before a run decide it; None if the key has to have an effect."""
    draft = read_draft(base, overrides=overrides_of(key, strategy))
    away = key == "data.storage"  # there is no such bucket
    try:
        checked = check_draft(draft, look_for=("model",) if away else ("model", "data"))
    except ClicklineError as error:
        if not _accepted(base, key, strategy, away=away):
            raise AssertionError(f"the probe of {key} under {strategy} is refused without the key: {error}") from error
        own = [problem for problem in error.errors if _is_about(problem.key, key)]
        return Cell(key, strategy, "refused", (own or error.errors)[0].message)
    for notice in checked.notices:
        if _is_about(notice.key, key):
            return Cell(key, strategy, "reported", notice.message)
    return None


def cells(base: Path, strategies: tuple[str, ...]) -> Iterator[tuple[str, str, Cell | None]]:
    """Every key under every strategy."""
    for key in EFFECTS:
        for strategy in strategies:
            yield key, strategy, judged(base, key, strategy)


def named_test(key: str) -> str | None:
    """The test that shows the key's effect; an error if there is none of that name."""
    if key not in TESTS:
        return None
    file, _, name = TESTS[key].partition("::")
    text = (TREE / file).read_text(encoding="utf-8")
    assert f"def {name}(" in text, f"{key}: there is no test {TESTS[key]}"
    return f"tests/{TESTS[key]}"


def draft_of(base: Path, key: str, strategy: str, *, changed: bool = True) -> Draft:
    return read_draft(base, overrides=overrides_of(key, strategy, changed=changed))


def _accepted(base: Path, key: str, strategy: str, *, away: bool) -> bool:
    """Whether the job is right as it would be without the key: else it is the probe that is refused."""
    if key in _NEEDED_TOGETHER:
        return True
    try:
        check_draft(draft_of(base, key, strategy, changed=False), look_for=("model",) if away else ("model", "data"))
    except ClicklineError:
        return False
    return True


_NEEDED_TOGETHER = ("data.format", "data.delimiter", "data.reader", "features.integers", "data.header")
"""Keys whose probe changes the data as well, so that the job is right with the key only."""


def _is_about(shown: str, key: str) -> bool:
    wanted = key.replace("[]", f"[{SLOT}]")
    return shown == wanted or shown.startswith((f"{wanted}.", f"{wanted}["))
