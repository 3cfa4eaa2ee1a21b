"""One training with several checkpoints, and stores filled from them: what most tests here begin with."""

from support.versions.publishing_fixtures import (  # noqa: F401
    _filled,
    filled,
    networks_exported_once,
    training,
)
