"""Where the file of a command lies, and which commands are refused because it would lie elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from clickline.cube.agent_messages import AgentCommand
from clickline.cube.server.disk import DOWNLOADING
from clickline.cube.shard_files import deployed_name, part_name
from clickline.errors import VersionError

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_LONGEST_PATH = 4096


class InvalidCommandError(VersionError):
    """Raised for a command that cannot be meant, such as one that names a path outside of the deployment."""


def check_name(name: str) -> None:
    """Refuse a name of a dictionary that could not be part of a file's name. Raises InvalidCommandError."""
    if not _NAME.fullmatch(name):
        raise InvalidCommandError(f"dict_name {name!r:.80}")


@dataclass(frozen=True)
class DeployedFile:
    """The file of one version and shard below a deploy path."""

    directory: Path
    path: Path

    @classmethod
    def of(cls, command: AgentCommand, *, deploy: Path) -> DeployedFile:
        """The file of a command to the agent of `deploy`. Raises InvalidCommandError for anything outside of that."""
        check_name(command.name)
        # Cut before it is resolved: a command may have a path of up to a megabyte.
        given = (command.deploy_path or str(deploy))[: _LONGEST_PATH + 1]
        try:
            # `..` and symbolic links are followed before the comparison, so neither leads out of the deployment.
            folder = Path(given).resolve()
        except (ValueError, OSError, RuntimeError):
            raise InvalidCommandError(f"deploy_path {given!r:.200} is not a path") from None
        if len(given) > _LONGEST_PATH or not folder.is_relative_to(deploy.resolve()):
            raise InvalidCommandError(f"deploy_path {given!r:.200} is outside of {deploy}")
        directory = folder / "data" / deployed_name(command.base, command.version)
        return cls(directory, directory / part_name(command.name, command.shard))

    @property
    def staging(self) -> Path:
        """The directory that a download is written to before it gets its name."""
        return self.directory.with_name(f"{DOWNLOADING}{self.directory.name}")
