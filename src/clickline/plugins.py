"""Classes from outside the package: a reader or a model of the user's own, named in the job.

A reference is `module:Class` for something importable, or `path/file.py:Class` for a plain file. Loading runs the code
in it, as importing does: a job is to be trusted as much as a program.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from clickline.errors import JobError

T = TypeVar("T")


def load_class(reference: str, *, base: type[T], what: str) -> type[T]:
    """The class that `reference` names, which must derive from `base`; `what` says in errors what it is for."""
    place, separator, name = reference.rpartition(":")
    if not separator or not place or not name:
        raise JobError(f"{what} '{reference}' must be module:Class or path/file.py:Class.")
    module = _from_file(place, what=what) if place.endswith(".py") else _from_import(place, what=what)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        known = _classes(module, base)
        raise JobError(f"{what}: {place} has no class '{name}'. Known classes: {', '.join(known) or 'none'}.")
    if not issubclass(found, base):
        raise JobError(f"{what}: {reference} must derive from {base.__module__}.{base.__name__}.")
    return found


def _from_file(place: str, *, what: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise JobError(f"{what}: no file '{place}' (looked at {path}).")
    # One module per file: loading it twice would make two classes that are not each other's instances.
    name = f"clickline_plugin_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise JobError(f"{what}: '{place}' cannot be loaded as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the like look their module up while it loads
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise JobError(f"{what}: loading '{place}' failed with {type(error).__name__}: {error}") from error
    return module


def _from_import(place: str, *, what: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except Exception as error:
        # The module itself is missing, as opposed to something it imports in turn.
        if isinstance(error, ModuleNotFoundError) and error.name and (place + ".").startswith(error.name + "."):
            raise JobError(
                f"{what}: no module '{place}'. Install it, put its directory on PYTHONPATH, or name its file: "
                f"path/file.py:Class."
            ) from error
        raise JobError(f"{what}: importing '{place}' failed with {type(error).__name__}: {error}") from error


def _classes(module: ModuleType, base: type) -> list[str]:
    """Classes that would do first; all of the module's own if there is none."""
    own = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__]
    fitting = [item.__name__ for item in own if issubclass(item, base)]
    return fitting or [item.__name__ for item in own]
