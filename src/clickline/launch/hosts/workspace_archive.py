"""A workspace as one archive in memory, for launchers that have no other way to send files to hosts: MPI, Ray."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from clickline.errors import JobError
from clickline.launch.ssh.workspace import Workspace

_MOST_BYTES = 512 << 20


def packed(workspace: Path, *, most_bytes: int = _MOST_BYTES) -> bytes:
    """The files of a workspace as one archive. Raises JobError if it is too large to be held in memory."""
    files = Workspace(workspace, beside={})
    if files.bytes > most_bytes:
        raise JobError(
            f"{workspace} has {files.bytes / 1e6:,.0f} MB, more than is sent to the nodes of a Ray cluster or to ranks "
            f"of MPI ({most_bytes / 1e6:,.0f} MB): keep data elsewhere, or name a smaller directory with --workspace"
        )
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as archive:
        for file in files.files:
            archive.add(file.path, file.name)
    return out.getvalue()


def unpack(archive: bytes, directory: Path) -> None:
    """Write the files of a workspace below a directory. Raises ValueError for anything but a file below it.

    By hand, since the filter of Python's `extractall` came with 3.11.4 and Debian 12 has 3.11.2.
    """
    root = directory.resolve()
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for member in files:
            target = (root / member.name).resolve()
            content = files.extractfile(member) if member.isfile() else None
            if content is None or not target.is_relative_to(root):
                raise ValueError(f"{member.name!r} in the archive of the workspace is not a file below {root}")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
            target.chmod(member.mode & 0o777)
