"""File systems by URL: opened through fsspec, with errors that name the path and never show a secret.

Readers of data and stores of versions open what they read here, and say which error of ours trouble becomes. Clients
of remote file systems raise much that is not an OSError; `is_client_error` recognises it by where it was raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clickline.errors import ClicklineError

_CLIENTS = ("aiohttp", "botocore", "aiobotocore", "requests", "urllib3")
_EXTRAS = {"s3": "s3", "s3a": "s3", "webhdfs": "hdfs", "webHDFS": "hdfs"}
"""Protocols, and which extra of this package brings what they need."""
_KNOWN = ("file", "memory", "s3", "s3a", "gs", "abfs", "hdfs", "webhdfs", "sftp", "http", "https")
_LOCAL = ("file", "local")
_NO_LIBHDFS = (
    "hdfs:// needs Java and Hadoop's libhdfs (JAVA_HOME, HADOOP_HOME, CLASSPATH), which cannot be loaded here; "
    "webhdfs:// needs neither"
)


@dataclass(frozen=True, slots=True)
class Storage:
    """A file system of fsspec, the values that no message may show, and the error that trouble with it becomes."""

    system: Any
    error: type[ClicklineError]
    secrets: tuple[str, ...] = ()

    @contextmanager
    def explained(self, path: str) -> Iterator[None]:
        """Trouble inside the `with` becomes an error of ours that names the path."""
        try:
            yield
        except PermissionError as error:
            raise self.error(f"{path}: no permission; check its owner and mode, or the credentials") from error
        except FileNotFoundError as error:
            raise self.error(f"{path}: not there") from error
        except (OSError, NotImplementedError) as error:
            raise self.error(f"{path}: {self._scrubbed(error)}") from error
        except Exception as error:
            if is_client_error(error):
                raise self.error(f"{path}: {self._scrubbed(error)}") from error
            raise

    def _scrubbed(self, error: Exception) -> str:
        text = f"{type(error).__name__}: {error}"
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def open_storage(
    url: str, options: Mapping[str, str], *, resolve: Callable[[str], str], error: type[ClicklineError]
) -> tuple[Storage, str]:
    """The file system of a path or URL, and what it calls that path itself.

    `options` are fsspec's. `resolve` looks up the references in them, and what it has looked up is a secret. A path of
    this machine needs no options, so none are resolved for it.
    """
    import fsspec

    if not is_url(url):
        return Storage(fsspec.filesystem("file"), error), Path(url).expanduser().absolute().as_posix()
    protocol = protocol_of(url)
    resolved = {} if protocol in _LOCAL else {key: resolve(value) for key, value in options.items()}
    # A value that `resolve` has changed was a reference to a secret; others stand in the configuration in plain text.
    secrets = tuple(value for key, value in resolved.items() if value and value != options[key])
    with Storage(None, error, secrets).explained(url):
        try:
            system, name = fsspec.core.url_to_fs(url, **resolved)
        except ImportError as missing:
            raise error(f"{url}: needs a package that is not installed: {_remedy(protocol, missing)}") from missing
        except OSError as trouble:
            if protocol != "hdfs":
                raise
            raise error(f"{url}: {_NO_LIBHDFS}") from trouble
        except ValueError as unknown:
            raise error(f"{url}: {unknown}; known protocols: {', '.join(_KNOWN)}, and others of fsspec") from unknown
    return Storage(system, error, secrets), name


def protocol_problem(url: str) -> str | None:
    """Why no file system can be opened for a URL, as far as that is known without asking it; None if it can."""
    import fsspec

    protocol = protocol_of(url)
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as missing:
        return f"needs a package that is not installed: {_remedy(protocol, missing)}"
    except ValueError as unknown:
        return f"{unknown}; known protocols: {', '.join(_KNOWN)}, and others of fsspec"
    return None


def is_url(path: str) -> bool:
    """Whether a path is one of fsspec's, not of this machine's file system."""
    return "://" in path or "::" in path


def is_local(url: str) -> bool:
    """Whether a path or URL names something in this machine's file system."""
    return not is_url(url) or protocol_of(url) in _LOCAL


def protocol_of(url: str) -> str:
    """Such as s3; of a chain like `zip::s3://…` the innermost."""
    return url.partition("://")[0].rpartition("::")[2]


def _remedy(protocol: str, missing: ImportError) -> str:
    extra = _EXTRAS.get(protocol)
    return f"pip install 'clickline[{extra}]'" if extra else str(missing)


def is_client_error(error: Exception) -> bool:
    """Whether the client of a remote file system raised this. Not all of it is OSError, nor a class of the client's."""
    if type(error).__module__.partition(".")[0] in _CLIENTS:
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_in = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__"))
    return raised_in.partition(".")[0] in ("fsspec", *_CLIENTS)
