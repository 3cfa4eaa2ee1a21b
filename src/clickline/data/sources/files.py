"""Finding and opening files: plain paths, globs, directories, and any URL that fsspec knows.

The order is that of the job; within a glob or a directory it is sorted by path, so that two runs read the same rows in
the same order. Names that start with a dot or an underscore are left out of globs and directories: they are the
markers and half-written files of other tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec

from clickline.config.secret_references import resolve
from clickline.errors import DataError

_CLIENTS = ("aiohttp", "botocore", "aiobotocore", "requests", "urllib3")
NO_LIBHDFS = (
    "hdfs:// needs Java and Hadoop's libhdfs (JAVA_HOME, HADOOP_HOME, CLASSPATH), which cannot be loaded here; "
    "webhdfs:// needs neither"
)
_EXTRAS = {"s3": "s3", "s3a": "s3", "webhdfs": "hdfs", "webHDFS": "hdfs"}


@dataclass(frozen=True, slots=True)
class File:
    """A file to read. Two are equal when they have the same path."""

    path: str
    """As a user would write it."""
    storage: Storage = field(compare=False, repr=False)
    name: str = field(compare=False, repr=False)
    """As its file system calls it."""

    @property
    def size(self) -> int | None:
        """Bytes, if its file system knows."""
        with self.storage.explained(self.path):
            size = self.storage.system.size(self.name)
        return None if size is None else int(size)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The raw bytes. Trouble in opening or reading, inside the `with` too, becomes a DataError naming the path."""
        with self.storage.explained(self.path), self.storage.system.open(self.name, "rb") as stream:
            yield cast(BinaryIO, stream)


@dataclass(frozen=True, slots=True)
class Storage:
    """A file system, and the values that no message may show."""

    system: Any
    secrets: tuple[str, ...] = ()

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        with _explained(path, secrets=self.secrets):
            yield


def find(paths: Iterable[str], *, options: Mapping[str, str]) -> list[File]:
    """Every file that `paths` name, in order. A path that names nothing is an error, never an empty result."""
    return [file for path in paths for file in _matches(path, options)]


def is_client_error(error: Exception) -> bool:
    """Whether the client of a remote file system raised this. Not all of it is OSError, nor a class of the client's."""
    if type(error).__module__.partition(".")[0] in _CLIENTS:
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return raised_in.partition(".")[0] in ("fsspec", *_CLIENTS)


def _matches(path: str, options: Mapping[str, str]) -> list[File]:
    storage, name = _storage(path, options)
    system = storage.system
    with storage.explained(path):
        # A file may well be called a[1].txt: what exists under the very name goes before what it would match.
        if system.exists(name):
            names = _leaves(system, name)
            if not names:
                raise DataError(f"no files in the directory '{path}' (hidden ones do not count)")
        elif re.search(r"\*" if _is_web(path) else r"[*?\[]", path):
            found = [match for match in sorted(system.glob(name)) if not _hidden(match, below=name)]
            # A directory that matches means all that is in it; the dict drops what `**` has found twice.
            names = list(dict.fromkeys(leaf for match in found for leaf in _leaves(system, match)))
            if not names:
                _check_reachable(system, path, re.split(r"[*?\[]", name)[0].rpartition("/")[0])
                raise DataError(f"no file matches '{path}': check the pattern and the directory it starts from")
        else:
            _check_reachable(system, path, name)
            raise DataError(f"no such file or directory: '{path}'{'' if _is_url(path) else _nearby(name)}")
    shown = system.unstrip_protocol if _is_url(path) else str
    return [File(path=shown(leaf), storage=storage, name=leaf) for leaf in names]


def _check_reachable(system: Any, path: str, name: str) -> None:
    """Raise if a remote storage cannot be reached: fsspec reports a file there as missing."""
    if _is_url(path) and not _is_web(path):
        with suppress(FileNotFoundError):
            system.info(name)


def _storage(path: str, options: Mapping[str, str]) -> tuple[Storage, str]:
    if not _is_url(path):
        return Storage(fsspec.filesystem("file")), Path(path).expanduser().absolute().as_posix()
    protocol = path.partition("://")[0].rpartition("::")[2]
    resolved = {} if protocol in ("file", "local") else {key: resolve(value) for key, value in options.items()}
    secrets = tuple(value for key, value in resolved.items() if value and value != options[key])
    with _explained(path, secrets=secrets):
        try:
            system, name = fsspec.core.url_to_fs(path, **resolved)
        except ImportError as error:
            extra = _EXTRAS.get(protocol)
            remedy = f"pip install 'clickline[{extra}]'" if extra else str(error)
            raise DataError(f"reading '{path}' needs a package that is not installed: {remedy}") from error
        except OSError as error:
            if protocol != "hdfs":
                raise
            raise DataError(f"cannot read '{path}': {NO_LIBHDFS}") from error
        except ValueError as error:
            known = ", ".join(sorted(set(_EXTRAS) | {"file", "hdfs", "http", "https", "memory"}, key=str.lower))
            raise DataError(f"cannot read '{path}': {error}; known protocols: {known}, and others of fsspec") from error
    return Storage(system, secrets), name


def _is_url(path: str) -> bool:
    return "://" in path or "::" in path


def _is_web(path: str) -> bool:
    return path.startswith(("http://", "https://"))


def _leaves(system: Any, name: str) -> list[str]:
    """The file itself, or all files below if it is a directory."""
    # Asking the web whether this is a directory would download it: there, only a slash at the end makes one.
    if not (name.endswith("/") if _is_web(name) else system.isdir(name)):
        return [name]
    return [leaf for leaf in sorted(system.find(name)) if not _hidden(leaf, below=name)]


def _hidden(path: str, *, below: str) -> bool:
    """Whether a part of `path` that the user did not write out is hidden."""
    parts, given = path.strip("/").split("/"), below.strip("/").split("/")
    written = 0
    while written < min(len(parts), len(given)) and parts[written] == given[written]:
        written += 1
    return any(
        part.startswith((".", "_")) and not (place < len(given) and given[place].startswith(part[0]))
        for place, part in enumerate(parts[written:], written)
    )


def _nearby(path: str) -> str:
    """The names in the file's directory, for the message about a missing file."""
    parent = Path(path).parent
    if not parent.is_dir():
        return f"; its directory '{parent}' does not exist either"
    there = sorted(item.name for item in parent.iterdir() if not item.name.startswith("."))
    shown = ", ".join(there[:8]) + (", …" if len(there) > 8 else "")
    return f"; '{parent}' has: {shown}" if there else f"; '{parent}' is empty"


@contextmanager
def _explained(path: str, *, secrets: tuple[str, ...] = ()) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise DataError(f"no permission to read '{path}': check its owner and mode, or the credentials") from error
    except FileNotFoundError as error:
        raise DataError(f"'{path}' is not there (any more)") from error
    except OSError as error:
        raise DataError(f"reading '{path}' failed with {_scrubbed(error, secrets)}") from error
    except Exception as error:
        if is_client_error(error):
            raise DataError(f"reading '{path}' failed with {_scrubbed(error, secrets)}") from error
        raise


def _scrubbed(error: Exception, secrets: tuple[str, ...]) -> str:
    text = f"{type(error).__name__}: {error}"
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
