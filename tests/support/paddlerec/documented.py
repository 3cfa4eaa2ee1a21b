"""The files of PaddleRec's documentation on PaddleCloud: keys and values as they are, without its prose."""

from __future__ import annotations

import shutil
from pathlib import Path

FILES = Path(__file__).parents[2] / "compat" / "paddlerec" / "documented"
CONFIGS = ("single_config", "cluster_config", "mpi_config", "k8s_collective_config", "k8s_ps_config")
SUBMISSIONS = (
    ("cluster_config", "complete_backend"),
    ("mpi_config", "mpi_backend"),
    ("k8s_collective_config", "k8s_collective_backend"),
    ("k8s_ps_config", "k8s_ps_backend"),
)
"""Each config.yaml with its backend.yaml."""


def copied(name: str, directory: Path) -> Path:
    """A copy of one of the files, as config.yaml or backend.yaml of a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    target = directory / f"{name.rpartition('_')[2]}.yaml"
    shutil.copy(FILES / f"{name}.yaml", target)
    return target


def changed(name: str, directory: Path, **replacements: str) -> Path:
    """The same with lines `KEY: …` replaced, whatever their depth; an empty text leaves the line out."""
    file = copied(name, directory)
    file.write_text("".join(f"{_replaced(line, replacements)}\n" for line in file.read_text().splitlines()))
    return file


def _replaced(line: str, replacements: dict[str, str]) -> str:
    key = line.strip().removeprefix("- ").partition(":")[0]
    if key not in replacements:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    first = "- " if line.lstrip().startswith("- ") else ""
    return f"{indent}{first}{replacements[key]}" if replacements[key] else f"{indent}#"
