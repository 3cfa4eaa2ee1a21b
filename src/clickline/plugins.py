"""A user's own classes, named in the job as `module:Class` or `path/to/file.py:Class`."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

from clickline.errors import ModelError


def load_class(reference: str, *, base: type, what: str) -> type:
    """Import the class that `reference` names; it must derive from `base`. `what` names its role in errors."""
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise ModelError(f"{what} {reference!r}: expected module:Class or path/file.py:Class")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except (ImportError, OSError) as error:
        raise ModelError(f"{what} {reference!r}: {place} cannot be imported: {error}") from error
    found = getattr(module, name, None)
    if not isinstance(found, type) or not issubclass(found, base):
        raise ModelError(f"{what} {reference!r}: {name} is not a class derived from {base.__module__}.{base.__name__}")
    return found


def _from_file(path: Path) -> object:
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    name = f"clickline_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"not a Python file: {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
