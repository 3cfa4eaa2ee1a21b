"""Cube's control commands of a cube server: one version in service and one in the background."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clickline.errors import ClicklineError

if TYPE_CHECKING:
    from clickline.cube.server.cube_process import CubeProcess

STATUS = "status"


class CubeControl:
    """Executes control commands, one at a time."""

    def __init__(self, process: CubeProcess) -> None:
        self._process = process
        self._busy = threading.Lock()
        self._loading = False
        self._background = 0

    def run(self, asked: Mapping[str, Any]) -> tuple[int, dict[str, str | int]]:
        """HTTP status and answer."""
        name = asked.get("cmd")
        # Without the lock: the status must be readable while a load is running, which it reports.
        if name == STATUS:
            return 200, self._status()
        # A load takes long: a second command is refused, instead of occupying another thread of the pool meanwhile.
        if not self._busy.acquire(blocking=False):
            return 500, {"error": "another command is at work"}
        try:
            self._execute(str(name), asked)
        except (ClicklineError, ValueError) as error:
            return 500, {"error": str(error)}
        finally:
            self._loading = False
            self._busy.release()
        return 200, {}

    def _status(self) -> dict[str, str | int]:
        view = self._process.versions.view
        background = self._in_background()
        return {
            "cur_version": str(view.version) if view.version else "",
            "bg_version": str(background) if background else "",
            "status": 1 if self._loading else 0,
        }

    def _execute(self, name: str, asked: Mapping[str, Any]) -> None:
        process = self._process
        if name in ("bg_load_base", "bg_load_patch", "reload_base", "reload_patch"):
            # `bg_…` loads beside what is in service; `reload_…` also switches to it, as Cube does at its start.
            version = self._version_of(asked.get("version_path"), patch=name.endswith("patch"))
            self._loading = True
            process.load(version)
            self._background = version
            if name.startswith("reload"):
                process.switch(version)
        elif name == "bg_switch":
            if not self._in_background():
                raise ValueError("there is no version in the background")
            process.switch(self._in_background())
        elif name == "bg_unload":
            if self._in_background():
                process.versions.drop(self._in_background())
            self._background = 0
        elif name == "enable":
            version = _number(asked.get("version"))
            if version != process.versions.view.version:
                if version not in process.versions.loaded:
                    raise ValueError(f"version {version} is neither in service nor in the background")
                process.switch(version)
        else:
            raise ValueError(f"no command {name!r}")

    def _in_background(self) -> int:
        """The version that was loaded last and is not in service, else the newest loaded one; 0: none."""
        versions = self._process.versions
        if self._background in versions.loaded and self._background != versions.view.version:
            return self._background
        return max((version for version in versions.loaded if version > versions.view.version), default=0)

    def _version_of(self, path: object, *, patch: bool) -> int:
        """From /<version> or /<base>_<version>; without a path the newest of the kind that is on disk."""
        if path in (None, ""):
            disk = self._process.versions.disk
            versions = [one for one in disk.complete() if (disk.chain(one)[-1].parent is not None) == patch]
            if not versions:
                raise ValueError(f"no {'patch' if patch else 'base'} lies here; give version_path")
            return versions[-1]
        if not isinstance(path, str) or not path.startswith("/") or "/" in path[1:]:
            raise ValueError(f"version_path {path!r} must be like {'/12_14' if patch else '/12'}")
        base, underscore, version = path[1:].rpartition("_")
        if bool(underscore) != patch:
            raise ValueError(f"version_path {path!r} must be like {'/12_14' if patch else '/12'}")
        if patch:
            _number(base)
        return _number(version)


def _number(text: object) -> int:
    value = str(text) if isinstance(text, str | int) and not isinstance(text, bool) else ""
    if not value.isascii() or not value.isdigit() or len(value) > 19:
        raise ValueError(f"{text!r} is not a version")
    return int(value)
