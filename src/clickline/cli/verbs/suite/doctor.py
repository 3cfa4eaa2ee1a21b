"""`clickline doctor`: does Clickline work here, on what, and what is missing?"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec

import typer

from clickline.cli.shared.machine import Machine, inspect
from clickline.cli.shared.output import AsJson, print_json, results

REQUIRED = (
    *("torch", "numpy", "pyarrow", "pydantic", "yaml", "fsspec", "safetensors", "prometheus_client"),
    *("onnx", "onnxscript", "onnxruntime", "starlette", "uvicorn", "httpx", "uvloop", "httptools", "msgspec"),
    *("grpc", "google.protobuf", "aiohttp"),
)
EXTRAS = {"s3": ("s3fs", "s3:// paths"), "hdfs": ("requests", "webhdfs:// paths")}
# The empty text is the vector every XXH64 agrees on; the other goes through the seed of a slot as well.
VECTORS = {("xxh64", b""): 0xEF46DB3751D8E999, ("feature_key", b"68fd1e64"): 0x5B9D2CCA195FB7D7}


def doctor(as_json: AsJson = False) -> None:
    """Check that Clickline works on this machine, and show what it found: versions, processor, memory, extras.

    Exit code 1 means that something Clickline needs is broken.

    Example: clickline doctor --json
    """
    findings = examine()
    if as_json:
        print_json(asdict(findings))
    else:
        _show(findings)
    if findings.broken:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class NativeCore:
    """What is known of the native core."""

    loads: bool
    arch: str | None
    correct: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything `doctor` finds out."""

    versions: dict[str, str | None]
    """Of packages; None of one that cannot be imported."""
    native: NativeCore
    machine: Machine
    threads: int | None
    """Of PyTorch."""
    extras_missing: dict[str, str]
    """How each is installed."""
    broken: list[str]
    """What keeps Clickline from working, in words."""


def examine() -> Findings:
    """Import every package, check the native core, look at the machine."""
    from clickline import __version__

    versions: dict[str, str | None] = {"clickline": __version__, "python": platform.python_version()}
    broken = []
    for name in REQUIRED:
        try:
            module = import_module(name)
            versions[name] = str(getattr(module, "__version__", "unknown"))
        except Exception as error:  # a damaged package can raise anything
            versions[name] = None
            broken.append(f"{name} cannot be imported ({error}); install clickline again with pip")
    native, trouble = _native()
    missing = [name for name, (package, _) in EXTRAS.items() if find_spec(package) is None]
    return Findings(
        versions=versions,
        native=native,
        machine=inspect(),
        threads=_threads() if versions["torch"] else None,
        extras_missing={name: f"pip install 'clickline[{name}]'" for name in missing},
        broken=broken + trouble,
    )


def _native() -> tuple[NativeCore, list[str]]:
    """The native core, and what is wrong with it."""
    try:
        from clickline import _native as core
    except ImportError as error:
        return NativeCore(loads=False, arch=None, correct=False), [f"the native core cannot be loaded: {error}"]
    wrong = [
        f"the native core computes {function} wrongly: {got:#x} instead of {expected:#x}; do not train with it"
        for (function, value), expected in VECTORS.items()
        if (got := core.xxh64(value) if function == "xxh64" else core.feature_key("C1", value)) != expected
    ]
    return NativeCore(loads=True, arch=core.arch or "the compiler's baseline", correct=not wrong), wrong


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _show(findings: Findings) -> None:
    from rich.table import Table
    from rich.text import Text

    machine, native = findings.machine, findings.native
    extras = findings.extras_missing
    table = Table(box=None, pad_edge=False, show_header=False)
    lines = [(name, version or "broken", "" if version else "red") for name, version in findings.versions.items()]
    core = f"{native.arch}, {'correct' if native.correct else 'wrong'}" if native.loads else "broken"
    lines += [
        ("native core", core, "" if native.correct else "red"),
        ("system", machine.system, ""),
        ("processor", machine.cpu, ""),
        ("cores", f"{machine.cores}, usable {machine.usable_cores:g}" if machine.usable_cores else "?", ""),
        ("features", " ".join(machine.features) or "none known", ""),
        ("memory", f"{_gib(machine.memory_bytes)}, usable {_gib(machine.usable_memory_bytes)}", ""),
        ("threads", str(findings.threads), ""),
    ]
    for name, (_, purpose) in EXTRAS.items():
        state = f"missing; for {purpose}: {extras[name]}" if name in extras else "installed"
        lines.append((f"extra {name}", state, ""))
    for name, value, style in lines:
        table.add_row(Text(name, style="bold"), Text(value, style=style, overflow="fold"))
    results().print(table)
    for trouble in findings.broken:
        results().print(Text(trouble, style="red"), soft_wrap=True)
    if not findings.broken:
        results().print(Text("everything Clickline needs works here", style="green"))


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 2**30:.1f} GiB"
