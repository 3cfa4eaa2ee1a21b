"""The files of a job, sent to each host as far as it lacks them."""

from __future__ import annotations

import json
import shlex
import stat
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clickline.config.hosts import Host
from clickline.errors import JobError, PeerError
from clickline.files.digests import file_sha256
from clickline.launch.ssh.remote import script
from clickline.launch.ssh.ssh_client import failure, ssh_command

MOST_BYTES = 4 << 30
_SKIPPED = ("__pycache__", "runs", "build", "node_modules")
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class WorkspaceFile:
    """One file of it."""

    path: Path
    name: str
    """Relative to the workspace."""
    mode: int
    size: int
    sha256: str


class Workspace:
    """A directory with what the job needs beside its data: code of the user's own, small files.

    None: the hosts have it already. `beside` are files that are sent in any case, by the names they get.
    """

    def __init__(self, directory: Path | None, *, beside: Mapping[str, Path]) -> None:
        self.directory = directory
        own = [] if directory is None else [(path.relative_to(directory).as_posix(), path) for path in _walk(directory)]
        self.files = [_described(name, path) for name, path in [*own, *beside.items()]]
        if self.bytes > MOST_BYTES:
            raise JobError(
                f"{directory} has {self.bytes / 1e9:.1f} GB, more than is sent to hosts ({MOST_BYTES / 1e9:.0f} GB): "
                "keep data elsewhere, or deploy the workspace yourself and name it with --job-workspace"
            )

    @property
    def bytes(self) -> int:
        return sum(file.size for file in self.files)

    def send(self, host: Host, *, root: str, job: str, node: int, texts: Mapping[str, str]) -> tuple[str, int]:
        """Make the job's directory on a host, `texts` in it too; gives its path, and how many bytes had to be sent."""
        header = {
            "root": root,
            "job": job,
            "node": node,
            "files": [[file.name, file.mode, file.sha256] for file in self.files],
            "texts": dict(texts),
        }
        by_digest = {file.sha256: file for file in self.files}
        command = [*shlex.split(host.python), "-c", script("receive_workspace")]
        with subprocess.Popen(
            ssh_command(host, command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as ssh:
            assert ssh.stdin and ssh.stdout and ssh.stderr  # noqa: S101  (pipes were asked for)
            sent = 0
            try:
                ssh.stdin.write(json.dumps(header).encode() + b"\n")
                ssh.stdin.flush()
                # Files are kept there by their digests, over jobs: usually only what has changed is sent.
                missing = json.loads(ssh.stdout.readline())["missing"]
                for digest in missing:
                    file = by_digest[digest]
                    ssh.stdin.write(f"{digest} {file.size}\n".encode())
                    for chunk in _chunks(file):
                        ssh.stdin.write(chunk)
                    sent += file.size
                ssh.stdin.close()
                return str(json.loads(ssh.stdout.readline())["directory"]), sent
            except (OSError, ValueError, KeyError):
                # Killed first, or reading its last words could wait for as long as it hangs.
                ssh.kill()
                said = ssh.stderr.read().decode(errors="replace")
                raise PeerError(f"the workspace could not be sent: {failure(host, ssh.wait(), said)}") from None


def _walk(directory: Path) -> Iterator[Path]:
    """Regular files below a directory, without hidden ones and what is made anew."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith(".") or path.name in _SKIPPED:
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _walk(path)
        elif path.is_file():
            yield path


def _described(name: str, path: Path) -> WorkspaceFile:
    facts = path.stat()
    return WorkspaceFile(
        path=path,
        name=name,
        mode=stat.S_IMODE(facts.st_mode),
        size=facts.st_size,
        sha256=file_sha256(path),
    )


def _chunks(file: WorkspaceFile) -> Iterator[bytes]:
    """The file's bytes, as many as were announced: the other side counts them."""
    left = file.size
    with file.path.open("rb") as content:
        while left:
            chunk = content.read(min(_CHUNK, left))
            if not chunk:
                raise OSError(f"{file.path} became shorter")
            left -= len(chunk)
            yield chunk
