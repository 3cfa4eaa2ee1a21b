"""SHA-256 of files: the one way in which the project computes it (docs/decisions/0012-one-sha256-for-files.md).

Imports nothing of the project: any layer may use it.
"""

from __future__ import annotations

import hashlib
import os


def file_sha256(path: os.PathLike[str] | str) -> str:
    """The SHA-256 of a file as 64 hexadecimal digits. Other threads run meanwhile. Raises OSError."""
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  (a str or a PathLike, and read once from end to end)
        return hashlib.file_digest(file, "sha256").hexdigest()
