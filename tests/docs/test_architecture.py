"""docs/architecture.md has every room of the package and every import contract."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_room_has_a_row() -> None:
    package = ROOT / "src" / "clickline"
    rooms = {path.parent.name for path in package.glob("*/__init__.py")}
    described = set(re.findall(r"^\| \[(\w+)\]\(\.\./src/clickline/\1\) \|", PAGE, flags=re.MULTILINE))
    assert described == rooms


def test_every_import_contract_is_named() -> None:
    """By its sentence up to the first colon, behind which a contract gives its reason."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]
    assert contracts
    page = PAGE.lower()
    assert [name for name in contracts if name.partition(":")[0].lower() not in page] == []
