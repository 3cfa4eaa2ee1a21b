"""Contradictions in a config.yaml of PaddleRec 1.8: names that nothing has, and keys that exclude each other.

Values are looked at as they are given, whatever else is wrong with them, so that all mistakes are told at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clickline.config.loading.cross_checks import Contradiction, text_at
from clickline.config.loading.suggestions import suggestion

Given = Mapping[str, Any]


def first_contradictions(given: Given) -> Iterator[Contradiction]:
    """All of them, each with the path of the key to change."""
    runners, phases, datasets = (_entries(given, key) for key in ("runner", "phase", "dataset"))
    for key, entries in (("runner", runners), ("phase", phases), ("dataset", datasets)):
        yield from _repeated(key, entries)
    yield from _unknown_runners(given, runners)
    types = {_word(entry, "name"): _word(entry, "type").strip().lower() for _, entry in datasets}
    names = [_word(phase, "name") for _, phase in phases]
    read_by = {_word(phase, "name"): _word(phase, "dataset_name") for _, phase in phases}
    for number, phase in phases:
        read = _word(phase, "dataset_name")
        if read and datasets and read not in types:
            message = f"no dataset {read!r}; {suggestion(read, types, kind='datasets')}"
            yield ("phase", number, "dataset_name"), message
    for number, runner in runners:
        called = _names(runner, "phases")
        for position, name in enumerate(called):
            if phases and name not in names:
                path = ("runner", number, "phases", position) if isinstance(runner["phases"], list) else ()
                message = f"no phase {name!r}; {suggestion(name, names, kind='phases')}"
                yield path or ("runner", number, "phases"), message
        queued = [name for name in called or names if types.get(read_by.get(name, "")) == "queuedataset"]
        yield from _of_runner(number, runner, queued)
    for number, dataset in datasets:
        if not any(text_at(dataset, key) for key in ("data_converter", "sparse_slots", "dense_slots")):
            message = "missing; give sparse_slots and dense_slots, or data_converter: what a row has is not known"
            yield ("dataset", number, "sparse_slots"), message


def _of_runner(number: int, runner: Given, queued: Sequence[str]) -> Iterator[Contradiction]:
    engine, device = _word(runner, "class").strip().lower(), _word(runner, "device").strip().lower() or "cpu"
    fleet = _word(runner, "fleet_mode").strip().lower()
    at = ("runner", number)
    several = len([gpu for gpu in str(runner.get("selected_gpus", "0")).split(",") if gpu.strip()]) > 1
    if fleet == "collective" and device == "cpu":
        yield (*at, "fleet_mode"), "collective with device cpu: PaddleRec has it on GPUs only; set device: gpu"
    if device == "gpu" and (fleet in ("ps", "pslib") or (not fleet and engine.endswith("cluster_train"))):
        key = "fleet_mode" if fleet else "device"
        yield (*at, key), f"{fleet or 'ps'} with device gpu: parameter servers need device: cpu, or set collective"
    if several and device == "cpu":
        yield (
            (*at, "selected_gpus"),
            f"several GPUs, but device is cpu: set device: gpu, or name one GPU ({fleet or 'ps'})",
        )
    if engine in ("infer", "single_infer") and (fleet == "collective" or several or _many(runner)):
        key = "fleet_mode" if fleet == "collective" else "selected_gpus" if several else "class"
        yield (*at, key), "infer is one process: PaddleRec has no distributed infer; leave out what asks for several"
    if fleet == "collective" and queued:
        message = f"collective does not read a QueueDataset (phase {queued[0]}): set type: DataLoader for its dataset"
        yield (*at, "phases" if "phases" in runner else "fleet_mode"), message
    if _number(runner, "save_step_interval") > 0 and queued:
        message = (
            f"steps cannot be saved of a QueueDataset (phase {queued[0]}): set its type to DataLoader, or leave it out"
        )
        yield (*at, "save_step_interval"), message
    if len(frozen := _names(runner, "finetuning_aspect_varnames")) > 1:
        yield (*at, "finetuning_aspect_varnames"), f"{len(frozen)} names; PaddleRec freezes exactly one"


def _unknown_runners(given: Given, runners: Sequence[tuple[int, Given]]) -> Iterator[Contradiction]:
    known = [_word(runner, "name") for _, runner in runners]
    called = _names(given, "mode", separated=False)
    for position, name in enumerate(called):
        if known and name not in known:
            path = ("mode", position) if isinstance(given["mode"], list) else ("mode",)
            yield path, f"no runner {name!r}; {suggestion(name, known, kind='runners')}"


def _repeated(key: str, entries: Sequence[tuple[int, Given]]) -> Iterator[Contradiction]:
    seen: set[str] = set()
    for number, entry in entries:
        name = _word(entry, "name")
        if name and name in seen:
            yield (key, number, "name"), f"{name!r} is the name of another {key}, too; give each its own"
        seen.add(name)


def _entries(given: Given, key: str) -> list[tuple[int, Given]]:
    entries = given.get(key)
    return [(n, one) for n, one in enumerate(entries) if isinstance(one, Mapping)] if isinstance(entries, list) else []


def _word(given: Given, key: str) -> str:
    value = given.get(key)
    return str(value) if _is_word(value) else ""


def _names(given: Given, key: str, *, separated: bool = True) -> list[str]:
    value = given.get(key)
    if isinstance(value, str) and separated:
        return value.replace(",", " ").split()
    if _is_word(value) and not separated:
        return [str(value)]
    return [str(name) for name in value if _is_word(name)] if isinstance(value, list) else []


def _is_word(value: object) -> bool:
    """Whether it is read as a name: numbers are, too."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _number(given: Given, key: str) -> int:
    value = given.get(key)
    return value if isinstance(value, int) else 0


def _many(runner: Given) -> bool:
    return _number(runner, "worker_num") > 1
