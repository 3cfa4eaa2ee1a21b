"""A job that was made of PaddleRec's files, and what there is to know about it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from clickline.config.job import NAME_LENGTH, Job
from clickline.config.loading.key_paths import section_of
from clickline.config.loading.yaml_lines import Tree
from clickline.config.section import Section
from clickline.errors import JobProblem


@dataclass(frozen=True, slots=True)
class TranslatedJob:
    """One job: a runner that trains, or the whole file of the flat generation."""

    runner: str
    """The runner's name; empty if it has none."""
    tree: Tree
    """The job, with lines of config.yaml."""
    notices: list[JobProblem]
    """What could not be carried and why, and what is other than it was."""
    options: list[str] = field(default_factory=list)
    """Options of `clickline train` that belong to the run and not to the job."""
    on_nodes: bool = False
    """Whether it is submitted to a cluster, so that its data is on the nodes and not here."""

    @property
    def values(self) -> dict[str, Any]:
        value: dict[str, Any] = self.tree.value
        return value

    def text(self, *, source: str) -> str:
        """The job as a file, with what could not be carried on top."""
        head = [f"# Made from {source} by `clickline migrate`."]
        head += [f"# {notice}".replace("\n", " ") for notice in self.notices]
        if self.options:
            head.append(f"# Run it by: clickline train JOB {' '.join(self.options)}")
        ordered = _in_order(self.values, Job)
        body = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=None, width=110, allow_unicode=True)
        return "\n".join(head) + "\n" + body


def job_name(text: str) -> str:
    """A name for a run: the text without what a directory's name must not have."""
    return re.sub(r"[^\w.-]", "_", text).lstrip(".-")[:NAME_LENGTH] or "paddlerec"


def train_options(*, warm_start: str, publish: str) -> list[str]:
    options = ["--warm-start", _quoted(warm_start)] if warm_start else []
    return options + (["--publish", _quoted(publish)] if publish else [])


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w./:=@%+-]+", text) else "'" + text.replace("'", "'\\''") + "'"


def _in_order(values: dict[str, Any], section: type[Section]) -> dict[str, Any]:
    """Keys in the order in which the job defines them."""
    ordered = {}
    for name, info in section.model_fields.items():
        if name in values:
            inner = section_of(info.annotation) if isinstance(values[name], dict) else None
            ordered[name] = _in_order(values[name], inner) if inner else values[name]
    return ordered | values | ordered
