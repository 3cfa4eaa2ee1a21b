"""The three files of MovieLens 1M, from its zip or from a directory it was unpacked to.

They are read into memory, for which their size has a limit, whatever the archive claims.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO

from clickline.data.sources.files import File
from clickline.errors import DataError

NAMES = ("ratings.dat", "users.dat", "movies.dat")
EXPECTED = (
    "expected is ml-1m.zip, the MovieLens 1M dataset that GroupLens offers, or the directory it was unpacked to, with "
    f"{', '.join(NAMES)}; later releases look different"
)
_MAX_BYTES = 256 << 20
# Fields are written into CSV without quoting, so none of those written may have a comma, a quote or a line break.
_UNSAFE = re.compile(r'[,"\x00-\x1f]')


def contents(files: list[File], *, source: str) -> tuple[str, str, str]:
    """Ratings, users and movies, as text."""
    if len(files) == 1 and PurePosixPath(files[0].path).name not in NAMES:
        read = _zipped(files[0])
    else:
        read = {PurePosixPath(file.path).name: _read(file) for file in files}
        if len(read) < len(files):
            listed = ", ".join(file.path for file in files)
            raise DataError(f"'{source}' has a file more than once: {listed}; name the directory of one dataset")
    missing = [name for name in NAMES if name not in read]
    if missing:
        raise DataError(f"'{source}' has no {' and no '.join(missing)}; {EXPECTED}")
    ratings, users, movies = (read[name].decode("latin-1") for name in NAMES)
    return ratings, users, movies


def fields_of(text: str, *, name: str, width: int) -> Iterator[list[str]]:
    """The lines of a file that says what users or movies are. These are few and curated: a bad one is an error."""
    for number, line in enumerate(text.split("\n"), 1):
        if not line.rstrip("\r"):
            continue
        fields = line.rstrip("\r").split("::")
        if width == 3 and len(fields) > 3:  # a title may hold anything
            fields = [fields[0], "::".join(fields[1:-1]), fields[-1]]
        written = fields[::2] if width == 3 else fields  # titles are not
        if len(fields) != width or not fields[0].isdecimal() or any(_UNSAFE.search(field) for field in written):
            raise DataError(
                f"{name}, line {number}: expected {width} fields separated by '::', a number first, got {line[:80]!r}; "
                f"{EXPECTED}"
            )
        yield fields


def _read(file: File) -> bytes:
    with file.open() as stream:
        return _limited(stream, name=file.path)


def _zipped(file: File) -> dict[str, bytes]:
    read = {}
    with file.open() as stream:
        try:
            with zipfile.ZipFile(stream) as archive:
                for entry in archive.infolist():
                    name = PurePosixPath(entry.filename).name
                    if name in NAMES and not entry.is_dir():
                        if name in read:
                            raise DataError(f"'{file.path}' has {name} more than once; {EXPECTED}")
                        with archive.open(entry) as member:
                            read[name] = _limited(member, name=f"{file.path} ({name})")
        except zipfile.BadZipFile as error:
            raise DataError(f"'{file.path}' is not a zip archive, or a damaged one ({error}); {EXPECTED}") from error
        except (zlib.error, EOFError, NotImplementedError, RuntimeError) as error:  # damaged, exotic or encrypted
            raise DataError(f"'{file.path}' cannot be unpacked ({error}): download it again; {EXPECTED}") from error
    return read


def _limited(stream: IO[bytes], *, name: str) -> bytes:
    # The size in a zip directory may be wrong, so the limit is that of what is really unpacked.
    data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DataError(f"'{name}' is larger than {_MAX_BYTES >> 20} MiB; that of MovieLens 1M has 24; {EXPECTED}")
    return data
