"""Files that a node fetches for a job, and the run's directory that is copied away from it, at any URL of fsspec.

A directory is there under its name only when it is whole. Options of the file system are secret, so errors do not show
them.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from clickline.data.leasing.file_split import contiguous_split
from clickline.errors import PeerError
from clickline.files.storage import Storage, is_url, open_storage
from clickline.launch.hosts.host_messages import NodeFetch, NodeSteps


def fetch(wanted: NodeFetch, place: Path, steps: NodeSteps, *, stopped: Callable[[], bool]) -> bool:
    """Have files at a place; False if it was given up. Raises PeerError."""
    target = place / wanted.directory
    if target.exists() or target.is_symlink():
        raise PeerError(f"{target} is there already, so {wanted.url} is not fetched to it: rename one of them")
    if not is_url(wanted.url):
        return _link(wanted.url, target)
    storage, root = _opened(wanted.url, steps)
    with storage.explained(wanted.url):
        names = _names(storage, root)
    if not names:
        raise PeerError(f"{wanted.url}: no files there")
    # Each node finds out its share by itself: all see the same names, and sort them in the same way.
    chosen = names if not wanted.share else _share(names, wanted, steps)
    aside = target.with_name(f".{target.name}.part")
    shutil.rmtree(aside, ignore_errors=True)  # of a runner that was killed
    for name in chosen:
        if stopped():
            return False
        relative = PurePosixPath(name).relative_to(root) if name != root else PurePosixPath(name).name
        file = aside / relative
        with storage.explained(f"{wanted.url} into {target}"):
            file.parent.mkdir(parents=True, exist_ok=True)
            storage.system.get_file(name, str(file))
    aside.rename(target)
    return True


def copy_to(url: str, directory: Path, steps: NodeSteps, *, stopped: Callable[[], bool]) -> bool:
    """Copy a directory to a URL or path, under its own name; False if it was given up. Raises PeerError."""
    storage, root = _opened(url, steps)
    for file in _files_below(directory):
        if stopped():
            return False
        name = f"{root.rstrip('/')}/{directory.name}/{file.relative_to(directory).as_posix()}"
        with storage.explained(f"{directory} to {url}"):
            storage.system.makedirs(name.rpartition("/")[0], exist_ok=True)
            storage.system.put_file(str(file), name)
    return True


def _opened(url: str, steps: NodeSteps) -> tuple[Storage, str]:
    # Looked up by their names: what is looked up is known to be secret, and no error shows it.
    references = {name: f"${{{name}}}" for name in steps.storage}
    return open_storage(url, references, resolve=lambda text: steps.storage[text[2:-1]], error=PeerError)


def _names(storage: Storage, root: str) -> list[str]:
    names = sorted(str(name) for name in storage.system.find(root))
    return [name for name in names if not PurePosixPath(name).name.startswith(".")]


def _share(names: list[str], wanted: NodeFetch, steps: NodeSteps) -> list[str]:
    if len(names) < steps.nodes:
        raise PeerError(
            f"{wanted.url} has {len(names)} files for {steps.nodes} nodes, each of which trains files of its own: "
            "split them, or submit to fewer nodes"
        )
    mine = contiguous_split(len(names), steps.nodes)[steps.node]
    return names[mine.start : mine.stop]


def _link(path: str, target: Path) -> bool:
    source = Path(path).expanduser().absolute()
    if not source.exists():
        raise PeerError(f"{source} is not there: mount it on every node, or name a URL of a file system (fs_name)")
    target.symlink_to(source)
    return True


def _files_below(directory: Path) -> Iterator[Path]:
    """Regular files; hidden ones are of processes that run."""
    for path in sorted(directory.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _files_below(path)
        elif path.is_file():
            yield path
