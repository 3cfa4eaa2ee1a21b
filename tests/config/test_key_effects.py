"""No key of the job is silent: each is refused, reported, or has a proof that it has an effect.

This is the fast form of `make key-effects`, which also runs every strategy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from clickline.config.validation.effects import EFFECTS
from support.key_effects.base_job import write_base
from support.key_effects.cells import judged, named_test
from support.key_effects.differences import difference
from support.key_effects.probes import GIVEN, STRATEGIES, TESTS, VALUES


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_base(tmp_path)


def test_every_key_has_a_probe() -> None:
    """A new key needs a value in key_effects/probes.py, and a named test if a run of a second does not show it."""
    assert set(VALUES) == set(EFFECTS)
    assert set(GIVEN) <= set(EFFECTS)
    assert set(TESTS) <= set(EFFECTS)


@pytest.mark.parametrize("key", sorted(TESTS))
def test_a_test_that_stands_for_an_effect_exists(key: str) -> None:
    assert named_test(key)


@pytest.mark.parametrize(
    ("key", "verdicts"),
    [
        ("train.staleness", ["effect", "reported", "reported", "reported", "reported", "effect"]),
        ("data.placement", ["reported", "effect", "effect", "effect", "effect", "refused"]),
        ("threads", ["effect", "reported", "reported", "reported", "reported", "reported"]),
        ("tables.evict_every", ["effect", "refused", "refused", "refused", "refused", "effect"]),
        ("cluster.pservers", ["refused", "effect", "effect", "effect", "effect", "refused"]),
        ("cluster.agree.geo_steps", ["reported", "reported", "reported", "reported", "effect", "reported"]),
        ("cluster.agree.merge", ["reported", "reported", "reported", "effect", "reported", "reported"]),
        ("train.epochs", ["effect"] * 6),
    ],
)
def test_a_key_is_judged_by_strategy(base: Path, key: str, verdicts: list[str]) -> None:
    cells = [judged(base, key, strategy) for strategy in STRATEGIES]
    assert [cell.verdict if cell else "effect" for cell in cells] == verdicts


def test_no_probe_is_refused_for_something_else(base: Path) -> None:
    for key in EFFECTS:
        judged(base, key, "single")  # raises if the job is wrong without the key


@pytest.mark.parametrize(
    "key", ["train.average", "train.loss", "tables.linear.optimizer.l2", "checkpoint.keep", "metrics.threshold"]
)
def test_a_run_differs_when_a_key_is_changed(base: Path, tmp_path: Path, key: str) -> None:
    assert difference(base, key, tmp_path / "scratch") is not None


def test_a_key_that_changes_nothing_makes_no_difference(base: Path, tmp_path: Path) -> None:
    """Else the walk would prove nothing."""
    assert difference(base, "data.block_bytes", tmp_path / "scratch") is None
