"""Figures of a checkpoint: what was measured on exactly this one, and on which files.

Validation comes before a checkpoint is written, so its figures are in the manifest. Whatever is measured afterwards,
the test at the end of a run or `clickline evaluate` on the same data, is written beside: `figures-N.json` names the
checkpoint by its manifest's SHA-256, so that one which took its place later never inherits them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass

from clickline.config.data import Data
from clickline.data.sources import files
from clickline.files.atomic import replace_json
from clickline.train.checkpoints.checkpoint_digests import DIGEST_OF_MANIFEST, digest_of_manifest
from clickline.train.checkpoints.checkpoint_directories import figures_file
from clickline.train.checkpoints.checkpoint_manifest import MANIFEST_LIMIT, Checkpoint

log = logging.getLogger("clickline.train")
KINDS = ("test", "valid")
"""What a model is judged by, the better judge first."""


@dataclass(frozen=True)
class CheckpointFigures:
    """Figures on some data."""

    figures: dict[str, float]
    files: list[str]


def measured_on(data: Data, paths: list[str]) -> list[str]:
    """The files that paths of a job mean at this moment."""
    return [file.path for file in files.find(paths, options=data.storage)]


def record(
    checkpoint: Checkpoint, kind: str, measured: CheckpointFigures, *, check: Callable[[], None] = lambda: None
) -> None:
    """Write figures beside the checkpoint. If that fails, only a warning is logged: the figures were shown already."""
    all_figures = {**_read(checkpoint), kind: measured}
    saved = {name: asdict(figures) for name, figures in all_figures.items()}
    check()
    try:
        replace_json(figures_file(checkpoint.path), {"manifest_sha256": _identity(checkpoint), "measured": saved})
    except OSError as error:
        log.warning("figures of %s cannot be kept beside it: %s", checkpoint.path, error)


def recorded(checkpoint: Checkpoint) -> dict[str, CheckpointFigures]:
    """All figures of this checkpoint, by kind: `test`, `valid`."""
    found = _read(checkpoint)
    valid, paths = checkpoint.manifest.get("valid"), checkpoint.manifest.get("valid_files")
    if valid and paths is not None:  # manifests without the list have figures of an earlier step, perhaps
        found.setdefault("valid", CheckpointFigures(valid, paths))
    return {kind: found[kind] for kind in KINDS if kind in found}


def _identity(checkpoint: Checkpoint) -> str:
    return str(checkpoint.manifest.get(DIGEST_OF_MANIFEST) or digest_of_manifest(checkpoint.manifest))


def _read(checkpoint: Checkpoint) -> dict[str, CheckpointFigures]:
    file = figures_file(checkpoint.path)
    try:
        if file.stat().st_size > MANIFEST_LIMIT:
            raise ValueError(f"larger than {MANIFEST_LIMIT} bytes")
        saved = json.loads(file.read_bytes())
        if saved["manifest_sha256"] != _identity(checkpoint):
            return {}
        return {kind: CheckpointFigures(one["figures"], one["files"]) for kind, one in saved["measured"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("%s: figures cannot be read: %s", file, error)
        return {}
