"""The hosts of a cluster, for launchers that start processes on them: ssh, and others by the same list."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from clickline.config.section import Section

DESTINATION_PATTERN = r"^(?:[A-Za-z0-9_.][A-Za-z0-9_.-]*@)?\[?(?:[A-Za-z0-9_:.%][A-Za-z0-9_:.%-]*)?[A-Za-z0-9\]]$"
"""[USER@]HOST: never an option of ssh, which would begin with a dash."""
ADDRESS_PATTERN = r"^(?:[A-Za-z0-9_:.%][A-Za-z0-9_:.%-]*)?$"
"""A name or an address, of either family; or nothing."""


class Host(Section):
    host: Annotated[str, Field(min_length=1, max_length=255, pattern=DESTINATION_PATTERN)]
    """[USER@]HOST, or a name of ~/.ssh/config."""
    ssh_port: Annotated[int, Field(ge=0, le=65_535)] = 0
    """Port of its sshd. 0 = as ~/.ssh/config says, else 22."""
    address: Annotated[str, Field(max_length=255, pattern=ADDRESS_PATTERN)] = ""
    """Name or address by which the other hosts reach it. Empty = HOST."""
    pservers: Annotated[int, Field(ge=0, le=64)] = 1
    """Parameter servers to start there."""
    trainers: Annotated[int, Field(ge=0, le=1024)] = 1
    """Trainers to start there."""
    python: Annotated[str, Field(min_length=1)] = "python3"
    """The Python there that has Clickline."""

    @property
    def reached_at(self) -> str:
        """The address for the other hosts."""
        return self.address or self.host.rpartition("@")[2].strip("[]")
