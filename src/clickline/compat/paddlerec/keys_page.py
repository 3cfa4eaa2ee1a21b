"""docs/reference/paddlerec-keys.md: every key of PaddleRec's files and what becomes of it, made from the types.

python -m clickline.compat.paddlerec.keys_page docs/reference
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from clickline.compat.paddlerec.reading.backend_file import Backend, BackendConfig, CommunicatorFlags, SubmitSettings
from clickline.compat.paddlerec.reading.first_generation import (
    DatasetSettings,
    FirstConfig,
    PhaseSettings,
    RunnerSettings,
)
from clickline.compat.paddlerec.reading.flat_generation import FileSystemClient, FlatConfig, FlatRunner
from clickline.compat.paddlerec.reading.hyper_parameters import HyperParameters, PaddleOptimizer
from clickline.compat.paddlerec.translation.model_names import NEAREST, ZOO
from clickline.config.loading.key_paths import fields_by_key
from clickline.config.reference.attribute_docstrings import attribute_docstrings
from clickline.config.section import Section

_FILE = "paddlerec-keys.md"
_HEAD = """\
# Keys of PaddleRec's files

Every key of a config.yaml, of both generations, and of a backend.yaml, with what it is in a job; a key in bold must be
there. Made from the types by `python -m clickline.compat.paddlerec.keys_page docs/reference`; edit the types, not this
file. [How to migrate](../migrate-from-paddlerec.md) is a guide.
"""
_CHAPTERS: tuple[tuple[str, tuple[tuple[str, type[Section]], ...]], ...] = (
    (
        "config.yaml with lists of runners and phases (1.8)",
        (
            ("", FirstConfig),
            ("runner[].", RunnerSettings),
            ("phase[].", PhaseSettings),
            ("dataset[].", DatasetSettings),
        ),
    ),
    (
        "config.yaml with one runner (since 2.0)",
        (("", FlatConfig), ("runner.", FlatRunner), ("runner.fs_client.", FileSystemClient)),
    ),
    ("hyper_parameters of both", (("", HyperParameters), ("optimizer.", PaddleOptimizer))),
    (
        "backend.yaml",
        (
            ("", Backend),
            ("config.", BackendConfig),
            ("config.communicator.", CommunicatorFlags),
            ("submit.", SubmitSettings),
        ),
    ),
)


def page() -> str:
    """The page as Markdown."""
    return _HEAD + "".join(_chapters()) + "".join(_models())


def write(directory: Path) -> Path:
    """Write the page; gives back its path."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / _FILE
    file.write_text(page(), encoding="utf-8")
    return file


def _chapters() -> Iterator[str]:
    for title, sections in _CHAPTERS:
        yield f"\n## {title}\n\n| key | what it is in a job |\n|---|---|\n"
        for prefix, section in sections:
            texts = attribute_docstrings(section)
            for name, (key, field) in zip(section.model_fields, fields_by_key(section).items(), strict=True):
                shown = f"`{prefix}{key}`"
                meaning = (field.description or texts.get(name, "")).replace("\n", " ").replace("|", "\\|")
                yield f"| {f'**{shown}**' if field.is_required() else shown} | {meaning} |\n"


def _models() -> Iterator[str]:
    yield "\n## Models\n\n| PaddleRec | here |\n|---|---|\n"
    for name, ours in ZOO.items():
        yield f"| {name} | `{ours}`{', `params.rank: 1`' if name == 'dcn' else ''} |\n"
    yield "\nNot here, with the nearest that is: "
    yield ", ".join(f"{name} ({nearest})" for name, nearest in sorted(NEAREST.items())) + ".\n"


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference"))
