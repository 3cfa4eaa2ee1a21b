"""Makes a job's directory on a host from the files of its workspace, of which only those it lacks are sent.

Standard input: one line of JSON (root, job, node, files: [path, mode, SHA-256], texts: {path: content}), then the files
that were named missing, each as a line "SHA-256 SIZE" and its bytes. Standard output: a line of JSON with what is
missing, then one with the job's directory. Files are kept below ROOT/.files by their digests, for the next job.
Runs by itself on the host, so it uses the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

_DIGITS = frozenset("0123456789abcdef")
_SHA256 = 64
_CHUNK = 1 << 20


def inside(directory: Path, name: str) -> Path:
    """A path below the directory; a name that leads out of it ends the script."""
    if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        sys.exit(f"the path {name!r} leads out of the job's directory")
    return directory / name


def receive(cache: Path, digest: str, size: int) -> None:
    """One file into the cache, under its name only when it is whole."""
    place, seen, left = cache / f".{digest}.{os.getpid()}", hashlib.sha256(), size
    with place.open("wb") as file:
        while left:
            chunk = sys.stdin.buffer.read(min(_CHUNK, left))
            if not chunk:
                sys.exit("the files ended too early")
            file.write(chunk)
            seen.update(chunk)
            left -= len(chunk)
    if seen.hexdigest() != digest:
        place.unlink()
        sys.exit("a file was changed while it was sent: begin again")
    place.replace(cache / digest)


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    header = json.loads(sys.stdin.buffer.readline())
    root = Path(header["root"])
    cache = root / ".files"
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    digests = {digest for _, _, digest in header["files"]}
    if any(len(digest) != _SHA256 or not set(digest) <= _DIGITS for digest in digests):
        sys.exit("a digest is none")
    missing = sorted(digest for digest in digests if not (cache / digest).exists())
    say({"missing": missing})
    for _ in missing:
        digest, size = sys.stdin.buffer.readline().decode().split()
        if digest not in digests:
            sys.exit("a file came that was not asked for")
        receive(cache, digest, int(size))
    directory = inside(root, header["job"])
    (directory / "log").mkdir(parents=True)  # of another job of this name: an error
    for name, mode, digest in header["files"]:
        place = inside(directory, name)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(cache / digest, place)
        place.chmod(mode & 0o777)
    for name, content in {**header["texts"], "nodefile": f"{header['node']}\n"}.items():
        inside(directory, name).write_text(content, encoding="utf-8")
    say({"directory": str(directory)})


main()
