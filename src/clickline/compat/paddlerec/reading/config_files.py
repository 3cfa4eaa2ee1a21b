"""Reading PaddleRec's files: which generation a config.yaml is of, all that is wrong in it, and what to tell of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clickline.compat.paddlerec.reading.backend_contradictions import backend_contradictions
from clickline.compat.paddlerec.reading.backend_file import Backend, SubmitSettings
from clickline.compat.paddlerec.reading.file_kinds import (
    ANY_KEYS,
    FIRST_KEYS,
    FLAT_NAMES,
    is_backend,
    is_oldest,
    is_paddlerec,
)
from clickline.compat.paddlerec.reading.first_generation import FirstConfig
from clickline.compat.paddlerec.reading.flat_generation import FlatConfig
from clickline.compat.paddlerec.reading.value_types import is_written_out
from clickline.config.loading.origins import Origins, key_path, key_text
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.overrides import override
from clickline.config.loading.problem_messages import show
from clickline.config.loading.reader import read_tree, refusal, settings_of
from clickline.config.loading.yaml_lines import Tree
from clickline.errors import JobError, JobProblem

_FLAT_KEYS = {"batch_size": "train_batch_size", "print_period": "print_interval"}
"""What keys of that section were called."""


@dataclass(frozen=True, slots=True)
class PaddleRecFile:
    """A config.yaml that is right in itself, with the backend.yaml that belongs to it, if there is one."""

    path: Path
    config: FirstConfig | FlatConfig
    origins: Origins
    """Lines of config.yaml."""
    notices: list[JobProblem]
    backend: Backend | None = None
    backend_origins: Origins | None = None
    directory_name: str = ""
    """Name of the directory that config.yaml was taken from, where that is another: models are known by it."""

    @property
    def is_for_cluster(self) -> bool:
        """Whether a runner of `mode` is submitted to a cluster."""
        config = self.config
        return isinstance(config, FirstConfig) and any(
            runner.engine == "cluster_train" for runner in config.runner if runner.name in config.mode
        )


def read_config(
    path: Path, *, backend: Path | None = None, overrides: Sequence[str] = (), directory_name: str = ""
) -> PaddleRecFile:
    """Read a config.yaml and its backend.yaml. `overrides` are KEY=VALUE, as PaddleRec has them with -o.

    Raises JobError with all that is wrong.
    """
    tree = read_tree(path, repeated_keys="last")
    if not isinstance(tree.value, dict):
        raise refusal(
            str(path), [JobProblem("", f"a config.yaml is a mapping of keys to values, not {show(tree.value)}", 1)]
        )
    for argument in overrides:
        override(tree, argument)
    if not is_paddlerec(tree.value):
        raise refusal(str(path), [JobProblem("", _not_a_config(tree.value))])
    flat = _is_flat(tree)
    # Renamed before it is checked, so that messages are about the names of today, at the lines of the file.
    _rename_engines(tree)
    tree.value = _without_nothing(tree.value)
    config: FirstConfig | FlatConfig | None
    config, problems = settings_of(tree, FlatConfig) if flat else settings_of(tree, FirstConfig)
    errors = [refusal(str(path), problems)] if problems else []
    read: Backend | None = None
    backend_tree = Tree(value=None)
    if backend is not None:
        # Also if config.yaml is wrong: mistakes in both files are told at once.
        try:
            read, backend_tree = read_backend(backend, tree.value)
        except JobError as error:
            errors.append(error)
    if errors or config is None:
        raise _together(errors)
    notices = [*tree.notices, *backend_tree.notices]
    return PaddleRecFile(path, config, tree.origins, notices, read, backend_tree.origins, directory_name)


def _not_a_config(value: Mapping[str, Any]) -> str:
    if is_oldest(value):
        return "a config.yaml from before PaddleRec 1.8; write it with workspace, mode, runner, phase and dataset"
    if is_backend(value):
        return "a backend.yaml; give it by -b, beside the config.yaml that it belongs to"
    return f"not a config.yaml of PaddleRec: it has none of {', '.join(ANY_KEYS)}, or more keys of a job"


def read_backend(path: Path, config: Mapping[str, Any]) -> tuple[Backend, Tree]:
    """Read a backend.yaml that belongs to a config.yaml of these values. Raises JobError with all that is wrong."""
    tree = read_tree(path, repeated_keys="last")
    if not isinstance(tree.value, dict):
        raise refusal(str(path), [JobProblem("", f"a backend.yaml is a mapping, not {show(tree.value)}", 1)])
    _rename_dashes(tree)
    tree.value = _without_nothing(tree.value)
    backend, problems = settings_of(tree, Backend)
    # Keys that do not fit those of config.yaml are told together with what is wrong in this file alone.
    for keys, message in backend_contradictions(tree.value, config):
        problems.append(JobProblem(key_text(keys), message, tree.origins.nearest(keys)[0]))
    if problems or backend is None:
        raise refusal(str(path), problems)
    tree.notices += _credentials(backend, tree.origins)
    tree.notices = [replace(notice, message=f"{notice.message} ({path})") for notice in tree.notices]
    return backend, tree


def _is_flat(tree: Tree) -> bool:
    """Whether the file is of the flat generation; names of its first files become those of the later ones."""
    value = tree.value
    for name in FLAT_NAMES:
        if isinstance(value.get(name), dict) and "runner" not in value:
            _rename(tree, (name,), "runner")
    runner = value.get("runner")
    if isinstance(runner, dict):
        for older, name in _FLAT_KEYS.items():
            if older in runner and name not in runner:
                _rename(tree, ("runner", older), name)
    # The first generation has a list of runners, the flat one a single mapping.
    if isinstance(runner, dict | list):
        return isinstance(runner, dict)
    return not any(key in value for key in FIRST_KEYS)


def _rename_dashes(tree: Tree) -> None:
    """k8s-cpu-cores, as PaddleRec's documentation has it, is k8s_cpu_cores."""
    submit = tree.value.get("submit")
    for name in list(submit) if isinstance(submit, dict) else ():
        if "-" in name and name.replace("-", "_") in SubmitSettings.model_fields:
            _rename(tree, ("submit", name), name.replace("-", "_"))


def _rename_engines(tree: Tree) -> None:
    """trainer_class of older files is class."""
    runners = tree.value.get("runner")
    for number, runner in enumerate(runners) if isinstance(runners, list) else ():
        older = isinstance(runner, dict) and "class" not in runner and runner.get("trainer_class")
        if older in ("single_train", "single_infer"):
            _rename(tree, ("runner", number, "trainer_class"), "class")


def _rename(tree: Tree, path: Keys, name: str) -> None:
    place: Any = tree.value
    for part in path[:-1]:
        place = place[part]
    place[name] = place.pop(path[-1])
    line, _ = tree.origins.nearest(path)
    tree.notices.append(JobProblem(key_text(path), f"read as {name}", line))
    tree.origins.move(path, (*path[:-1], name))


def _without_nothing(value: Any) -> Any:
    """Keys without a value are as good as not given, as PaddleRec takes them."""
    if isinstance(value, dict):
        return {key: _without_nothing(inner) for key, inner in value.items() if inner is not None}
    return [_without_nothing(inner) for inner in value] if isinstance(value, list) else value


def _credentials(backend: Backend, origins: Origins) -> Iterator[JobProblem]:
    for key, value in (
        ("config.fs_ugi", backend.config.fs_ugi),
        ("submit.ak", backend.submit.ak),
        ("submit.sk", backend.submit.sk),
    ):
        if is_written_out(value):
            line, _ = origins.nearest(key_path(key) or ())
            yield JobProblem(key, "a credential in a file: write ${env:NAME} and set NAME where it is used", line)


def _together(errors: Sequence[JobError]) -> JobError:
    if len(errors) == 1:
        return errors[0]
    problems = [problem for error in errors for problem in error.errors]
    return JobError("\n".join(str(error) for error in errors), errors=problems)
