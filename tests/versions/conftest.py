"""One training with several checkpoints, and stores filled from them: as in publish/."""

from support.versions.publishing_fixtures import (  # noqa: F401
    _filled,
    filled,
    networks_exported_once,
    training,
)
