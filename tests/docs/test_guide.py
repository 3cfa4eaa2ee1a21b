"""The guide's own words: its reader, its model and its Python, taken from the page and run from outside the package."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes import ENVIRONMENT, run, write_job

PAGE = (Path(__file__).parents[2] / "docs" / "guide.md").read_text(encoding="utf-8")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str, page: str = PAGE) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of a user's own with the guide's files, and a log that its reader reads."""
    monkeypatch.chdir(tmp_path)
    for text in blocks("python"):
        if text.startswith("# "):
            (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    job = next(text for text in blocks("yaml") if "readers.py:Pipes" in text)
    (tmp_path / "job.yaml").write_text(job, encoding="utf-8")
    lines = [f"{int(n % 3 == 0)}|u{n % 3}|a{n % 5},a{n % 7}|{n % 11 / 10}\n" for n in range(2000)]
    (tmp_path / "clicks.txt").write_text("".join(lines), encoding="utf-8")
    return tmp_path


def test_reader_model_and_metric_of_your_own_train_from_the_command_line(outside: Path) -> None:
    changes = ("data.test=clicks.txt", "train.epochs=3", "metrics.own=[figures.py:brier]")
    done = run("train", "job.yaml", *(part for change in changes for part in ("--set", change)), "--json")
    assert done.returncode == 0, done.stderr
    auc = float(re.search(r'"auc": ([0-9.]+)', done.stdout)[1])
    assert auc > 0.99  # the label follows from the user
    assert 0 < float(re.search(r'"brier": ([0-9.e-]+)', done.stdout)[1]) < 0.25


@pytest.mark.parametrize("page", [PAGE, README], ids=["guide", "readme"])
def test_python_of_the_pages_runs(outside: Path, criteo: dict[str, str], page: str) -> None:
    settings = {
        "data": {"train": criteo["train"], "test": criteo["test"]},
        "model": {"name": "lr"},
        "train": {"batch_size": 500},
    }
    write_job(outside / "job.yaml", settings)
    code = next(text for text in blocks("python", page) if "train_job" in text)
    assert len(code.splitlines()) < 15
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 0.5 < float(done.stdout.split()[0]) < 1


def test_every_link_of_the_pages_leads_somewhere() -> None:
    root = Path(__file__).parents[2]
    for page in [root / "README.md", *root.glob("docs/**/*.md")]:
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not link.startswith("http"):
                assert (page.parent / link).exists(), f"{page}: {link}"
