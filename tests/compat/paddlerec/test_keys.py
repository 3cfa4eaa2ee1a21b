"""Generated mistakes in PaddleRec's files: each required key left out, each key misspelt, each with its own message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from clickline.compat.paddlerec.job_files import read_job_file
from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.compat.paddlerec.reading.first_generation import FirstConfig
from clickline.compat.paddlerec.reading.flat_generation import FlatConfig
from clickline.config.loading.key_paths import fields_by_key, section_at, section_of
from clickline.config.loading.origins import Path as Keys
from clickline.config.loading.origins import key_text
from clickline.config.section import Section
from clickline.errors import JobError
from support.paddlerec.documented import FILES
from support.paddlerec.zoo_configs import HYPER_PARAMETERS, flat_config


def completed(value: Any, section: type[Section]) -> Any:
    """A file with every key that is known; those that it does not give have their defaults, or nothing."""
    for key, field in fields_by_key(section).items():
        inner = section_of(field.annotation)
        if inner is None:
            value.setdefault(key, None if field.is_required() else field.get_default(call_default_factory=True))
            continue
        several = isinstance(value.get(key), list) or str(field.annotation).startswith("list")
        for entry in value.setdefault(key, []) if several else [value.setdefault(key, {})]:
            completed(entry, inner)
    return value


FIRST = completed(
    yaml.safe_load((FILES / "single_config.yaml").read_text())
    | {
        "hyper_parameters": {"optimizer": {"class": "Adam", "learning_rate": 0.001, "strategy": "async"}}
        | HYPER_PARAMETERS["dnn"],
    },
    FirstConfig,
)
FLAT = completed(flat_config("dcn_v2"), FlatConfig)
BACKEND = completed(
    yaml.safe_load((FILES / "complete_backend.yaml").read_text().replace("k8s-cpu-cores", "k8s_cpu_cores")), Backend
)
ROOTS: dict[str, tuple[Any, type[Section]]] = {
    "first": (FIRST, FirstConfig),
    "flat": (FLAT, FlatConfig),
    "backend": (BACKEND, Backend),
}


def key_paths(value: Any, path: Keys = ()) -> Iterator[Keys]:
    """Paths of all keys of a file."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield (*path, name)
            yield from key_paths(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from key_paths(inner, (*path, index))


def is_required(kind: str, path: Keys) -> bool:
    _, root = ROOTS[kind]
    section = section_at(path[:-1], root)
    known = fields_by_key(section) if section else {}
    return str(path[-1]) in known and known[str(path[-1])].is_required()


ALL = [(kind, path) for kind, (value, _) in ROOTS.items() for path in key_paths(value)]
REQUIRED = [
    *((kind, path) for kind, path in ALL if is_required(kind, path)),
    # Required by what else the file says: no days, a queue, a cluster of mpi.
    ("flat", ("runner", "epochs")),
    ("flat", ("runner", "pipe_command")),
    ("backend", ("config", "train_data_path")),
]
OPEN = ("hyper_parameters",)
"""What models of one's own may have keys in."""


def edited(value: Any, path: Keys, *, rename: str | None) -> Any:
    """A copy without a key, or with another name for it."""
    first, rest = path[0], path[1:]
    if isinstance(value, list):
        return [edited(one, rest, rename=rename) if index == first else one for index, one in enumerate(value)]
    if rest:
        return {key: edited(inner, rest, rename=rename) if key == first else inner for key, inner in value.items()}
    # A key without a value would be as good as not given.
    given = 1 if rename and value[first] is None else value[first]
    kept = {rename: given} | {key: inner for key, inner in value.items() if key != first}
    return {key: inner for key, inner in kept.items() if key is not None}


def messages(directory: Path, kind: str, value: Any) -> list[str]:
    """What is said of the file, all of it."""
    config, backend = directory / "config.yaml", directory / "backend.yaml"
    config.write_text(yaml.safe_dump(FIRST if kind == "backend" else value, sort_keys=False))
    backend.write_text(yaml.safe_dump(value if kind == "backend" else BACKEND, sort_keys=False))
    try:
        found = read_job_file(str(config), backend=str(backend))
    except JobError as error:
        return [str(problem) for problem in error.errors]
    return [str(notice) for notice in found.notices]


@pytest.mark.parametrize("kind", ROOTS)
def test_the_files_are_right_before_they_are_changed(tmp_path: Path, kind: str) -> None:
    assert not any("missing" in message or "unknown" in message for message in messages(tmp_path, kind, ROOTS[kind][0]))


@pytest.mark.parametrize(("kind", "path"), REQUIRED, ids=lambda part: part if isinstance(part, str) else key_text(part))
def test_a_required_key_that_is_left_out_is_told(tmp_path: Path, kind: str, path: Keys) -> None:
    said = messages(tmp_path, kind, edited(ROOTS[kind][0], path, rename=None))
    where = key_text(path)
    assert any(message.startswith(f"{where}, line") and "missing" in message for message in said), said


@pytest.mark.parametrize(("kind", "path"), ALL, ids=lambda part: part if isinstance(part, str) else key_text(part))
def test_a_misspelt_key_is_told_with_the_one_that_was_meant(tmp_path: Path, kind: str, path: Keys) -> None:
    name = str(path[-1])
    # A letter in the middle is doubled: near enough to be recognised, and no key of any section.
    wrong = name[: len(name) // 2] + name[len(name) // 2] + name[len(name) // 2 :]
    said = messages(tmp_path, kind, edited(ROOTS[kind][0], path, rename=wrong))
    where = key_text((*path[:-1], wrong))
    assert any(message.startswith(f"{where}, line") and f"did you mean {name}?" in message for message in said), said


def test_what_must_be_there_is_what_paddlerec_wants() -> None:
    required = {key_text(tuple(part for part in path if isinstance(part, str))) for _, path in REQUIRED}
    assert required >= {
        "workspace", "mode", "runner", "phase", "dataset", "runner.name", "runner.class", "phase.name", "phase.model",
        "phase.dataset_name", "dataset.name", "dataset.type", "dataset.data_path", "hyper_parameters.optimizer",
        "hyper_parameters.optimizer.class", "runner.train_data_dir", "runner.train_batch_size", "runner.epochs",
        "runner.print_interval", "backend", "cluster_type", "config.fs_name", "config.fs_ugi", "submit.ak",
        "submit.sk", "submit.job_name", "submit.group", "submit.start_cmd", "submit.files",
    }  # fmt: skip


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    value = edited(edited(FIRST, ("workspace",), rename=None), ("runner", 0, "epochs"), rename="epoch")
    value["runner"][0] |= {"device": "tpu", "print_interval": 0, "fleet_mode": "collective"}
    value["dataset"][0]["type"] = "QueueDataset"
    said = messages(tmp_path, "first", value)
    for key in ("workspace", "runner[0].epoch", "runner[0].device", "runner[0].print_interval", "runner[0].phases"):
        assert any(message.startswith(f"{key}, line") for message in said), (key, said)


def test_a_hyper_parameter_of_a_model_of_ones_own_is_told_and_not_refused(tmp_path: Path) -> None:
    value = FLAT | {"hyper_parameters": FLAT["hyper_parameters"] | {"my_temperature": 3}}
    said = messages(tmp_path, "flat", value)
    assert any("hyper_parameters.my_temperature, line" in message and "not carried" in message for message in said)
