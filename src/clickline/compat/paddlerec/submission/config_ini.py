"""config.ini of a submission: where data comes from and output goes to, and the environment of the nodes.

Lines of KEY=VALUE, as PaddleCloud has them. Keys of the platform say what to fetch; all others are variables.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clickline.compat.paddlerec.reading.backend_file import Backend
from clickline.compat.paddlerec.submission.credentials import VARIABLES, reference
from clickline.errors import JobError
from clickline.files.storage import is_url

ROLE = "PADDLE_PADDLEREC_ROLE"
DATA = {"train_data_path": "train_data", "test_data_path": "test_data", "thirdparty_path": "thirdparty"}
"""Keys of what is fetched, and the directories that it comes to."""
_PLATFORM = (
    *DATA,
    "fs_name",
    "output_path",
    "afs_remote_mount_point",
    "afs_local_mount_point",
    "mount_afs",
    "storage_type",
    "force_reuse_output_path",
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
MOUNT = "afs"
_HEAD = """\
# Where data comes from and output goes to, and variables for the processes on all nodes. Edit it, then: sh job.sh
# Credentials have no place here: export CLICKLINE_FS_UGI where you submit.
"""


@dataclass(frozen=True, slots=True)
class ConfigIni:
    """What it says."""

    platform: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    credentials: dict[str, str] = field(default_factory=dict, repr=False)
    """As they stand there: references, or values in a file that was written by hand."""

    def url(self, key: str) -> str:
        """The URL or path of a key; empty if it says nothing."""
        path = self.platform.get(key, "").strip()
        name = self.platform.get("fs_name", "").strip()
        if not path or is_url(path) or not name:
            return path
        return f"{name.rstrip('/')}/{path.lstrip('/')}" if is_url(name) else path

    def text(self) -> str:
        """As a file, without credentials."""
        named = {key: reference(key) for key in self.credentials if self.credentials[key]}
        lines = [f"{key}={shlex.quote(value)}" for key, value in {**self.platform, **named, **self.environment}.items()]
        return _HEAD + "\n".join(lines) + "\n"


def config_of_backend(backend: Backend, *, launcher: str, threads: int) -> ConfigIni:
    """From a backend.yaml, with what PaddleRec adds."""
    config = backend.config
    paths = {key: getattr(config, key) or "" for key in ("fs_name", "output_path", *DATA)}
    mount = {"mount_afs": "true", "afs_remote_mount_point": config.afs_remote_mount_point or ""}
    on_mpi = backend.cluster_type == "mpi"
    platform = {"storage_type": "hdfs", "force_reuse_output_path": "True"} if on_mpi else mount
    environment = environment_of(launcher, threads=threads)
    environment |= {name: str(value) for name, value in config.communicator.given.items()}
    credentials = {
        "fs_ugi": config.fs_ugi.get_secret_value(),
        "ak": backend.submit.ak.get_secret_value(),
        "sk": backend.submit.sk.get_secret_value(),
    }
    return ConfigIni({**platform, **paths}, environment, credentials)


def environment_of(launcher: str, *, threads: int) -> dict[str, str]:
    """Variables that every node has."""
    number = {"CPU_NUM": str(threads)} if threads else {}
    return {ROLE: "WORKER", "PADDLEREC_CLUSTER_TYPE": launcher.upper(), **number, "GLOG_v": "0"}


def read_config_ini(path: Path) -> ConfigIni:
    """Raises JobError that names the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise JobError(f"{path}: there is no such file; expected lines such as {ROLE}=WORKER") from None
    except (OSError, ValueError) as error:
        raise JobError(f"{path}: cannot be read: {error}") from None
    values: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if not content or content.startswith(("#", ";", "[")):
            continue
        name, equals, value = content.removeprefix("export ").partition("=")
        if not equals or not _NAME.fullmatch(name.strip()):
            # What stands there may be a credential, so it is not repeated.
            raise JobError(f"{path}, line {number}: expected NAME=VALUE")
        values[name.strip()] = _unquoted(value.strip())
    return _sorted(values)


def _sorted(values: Mapping[str, str]) -> ConfigIni:
    platform = {name: value for name, value in values.items() if name in _PLATFORM}
    credentials = {name: value for name, value in values.items() if name in VARIABLES}
    left = {name: value for name, value in values.items() if name not in platform and name not in credentials}
    return ConfigIni(platform, left, credentials)


def _unquoted(text: str) -> str:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return text
    return words[0] if len(words) == 1 else " ".join(words)
