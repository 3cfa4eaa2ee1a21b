"""Code from outside the package: a reader, a model or a metric of the user's own, named in the job.

A reference is `module:Name` for something importable, or `path/file.py:Name` for a plain file. Loading runs the code
in it, as importing does: a job is to be trusted as much as a program. A run keeps copies of such files
(`clickline.train.run_files.own_code`), which are loaded where the file itself is not found.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from clickline.errors import JobError

T = TypeVar("T")
_copies: list[Path] = []
"""Directories with copies, those of the run that was opened last first."""


def file_of(reference: str) -> str | None:
    """The file that a reference names, as it names it; None if it names a module, or is not a reference."""
    place, separator, _ = reference.rpartition(":")
    return place if separator and place.endswith(".py") else None


def copy_name(place: str) -> str:
    """What the copy of a file is called: two files of one name, in two directories, have two."""
    return f"{hashlib.sha256(place.encode()).hexdigest()[:12]}-{Path(place).name}"


def look_for_copies_in(directory: Path) -> None:
    """From now on, a file that is not found is looked for here. For the whole process: readers load in many places."""
    directory = directory.absolute()
    # Moved to the front if it is known: two runs may have different copies of one file, and the last one opened counts.
    if directory in _copies:
        _copies.remove(directory)
    _copies.insert(0, directory)


def load_class(reference: str, *, base: type[T], what: str) -> type[T]:
    """The class that `reference` names, which must derive from `base`; `what` names its key in errors."""
    module, place, name = _module_of(reference, what=what, kind="Class")
    found = getattr(module, name, None)
    if not isinstance(found, type):
        known = _classes(module, base)
        raise JobError(f"{what}: {place} has no class '{name}'; known classes: {', '.join(known) or 'none'}")
    if not issubclass(found, base):
        raise JobError(f"{what}: {reference} must derive from clickline.{base.__name__}")  # both bases are public names
    return found


def load_function(reference: str, *, what: str) -> Callable[..., Any]:
    """The function that `reference` names; `what` names its key in errors."""
    module, place, name = _module_of(reference, what=what, kind="function")
    found = getattr(module, name, None)
    if not callable(found):
        own = [key for key, item in vars(module).items() if isinstance(item, FunctionType) and not key.startswith("_")]
        raise JobError(f"{what}: {place} has no function {name!r}; its functions are: {', '.join(own) or 'none'}")
    return found  # type: ignore[no-any-return]


def _module_of(reference: str, *, what: str, kind: str) -> tuple[ModuleType, str, str]:
    """The loaded module, how the reference names it, and the name within it."""
    place, separator, name = reference.rpartition(":")
    if not separator or not place or not name:
        raise JobError(f"{what} '{reference}' must be module:{kind} or path/file.py:{kind}")
    module = _from_file(place, what=what) if place.endswith(".py") else _from_import(place, what=what, kind=kind)
    return module, place, name


def _from_file(place: str, *, what: str) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        copies = (directory / copy_name(place) for directory in _copies)
        copy = next((one for one in copies if one.is_file()), None)
        if copy is None:
            raise JobError(f"{what}: no file '{place}' (looked at {path})")
        path = copy
    # One module per file: loading it twice would make two classes that are not each other's instances.
    name = f"clickline_plugin_{path.stem}_{hashlib.sha256(bytes(path)).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise JobError(f"{what}: '{place}' cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and the like look their module up while it loads
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        # The next attempt would otherwise be given a module of which only the first part was executed.
        del sys.modules[name]
        raise JobError(f"{what}: loading '{place}' failed with {type(error).__name__}: {error}") from error
    return module


def _from_import(place: str, *, what: str, kind: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except Exception as error:
        # The module itself is missing, as opposed to something it imports in turn.
        if isinstance(error, ModuleNotFoundError) and error.name and (place + ".").startswith(error.name + "."):
            raise JobError(
                f"{what}: no module '{place}'; install it, put its directory on PYTHONPATH, or name its file: "
                f"path/file.py:{kind}"
            ) from error
        raise JobError(f"{what}: importing '{place}' failed with {type(error).__name__}: {error}") from error


def _classes(module: ModuleType, base: type) -> list[str]:
    """Classes that would do first; all of the module's own if there is none."""
    own = [item for item in vars(module).values() if isinstance(item, type) and item.__module__ == module.__name__]
    fitting = [item.__name__ for item in own if issubclass(item, base)]
    return fitting or [item.__name__ for item in own]
