"""Clickline: from click logs to live click-through-rate predictions.

What is public is named here, and only here; __init__.pyi has the types. Names are looked up when they are first used,
so that `import clickline` and the command line's --help stay fast: PyTorch is loaded by what needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "Job": "clickline.config",
    "LoadedJob": "clickline.config.loading.reader",
    "read_job": "clickline.config.loading.reader",
    "Model": "clickline.models.base",
    "Reader": "clickline.data.sources.custom_reader",
    "RowError": "clickline.data.sources.custom_reader",
    "train_job": "clickline.launch.local.training_run",
    "launch_job": "clickline.launch.launchers",
    "LaunchedResult": "clickline.launch.launchers",
    "up": "clickline.launch.stack.local_stack",
    "LocalStack": "clickline.launch.stack.local_stack",
    "scale": "clickline.launch.scaling.scale_request",
    "Client": "clickline.client.client",
    "AsyncClient": "clickline.client.async_client",
    "Prediction": "clickline.client.payloads",
    "RequestError": "clickline.net.request_errors",
    "ClicklineError": "clickline.errors",
    "JobError": "clickline.errors",
    "DataError": "clickline.errors",
    "ModelError": "clickline.errors",
    "CheckpointError": "clickline.errors",
    "PeerError": "clickline.errors",
    "VersionError": "clickline.errors",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return _version()
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'clickline' has no attribute {name!r}; it has {', '.join(sorted(_EXPORTS))}")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("clickline")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0+unknown"


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, "__version__"])
