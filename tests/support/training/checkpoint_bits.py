"""What two checkpoints must have in common that are of the same model: rows, dense parameters, optimizer state."""

from __future__ import annotations

from clickline.train.checkpoints.checkpoint_files import Checkpoint
from clickline.train.checkpoints.dense_tensors import dense_tensors


def bits(checkpoint: Checkpoint) -> dict[str, bytes]:
    """All of it by name; random states left out, which processes have for themselves."""
    files = [name for name in checkpoint.manifest["files"] if name.startswith("table-")]
    tensors = {name: t.numpy().tobytes() for name, t in dense_tensors(checkpoint).items() if "random" not in name}
    return {**{name: (checkpoint.path / name).read_bytes() for name in files}, **tensors}
