"""The dense part of a checkpoint as tensors of PyTorch, for processes that have the model itself."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors

from clickline import _native
from clickline.errors import CheckpointError
from clickline.train.checkpoints.checkpoint_files import DENSE, Checkpoint, dense_content, load_tables, verify


def dense_file(tensors: Mapping[str, torch.Tensor]) -> bytes:
    """The content of the file with these tensors."""
    return save_tensors({name: tensor.contiguous() for name, tensor in tensors.items()})


def dense_tensors(checkpoint: Checkpoint) -> dict[str, torch.Tensor]:
    """The dense part alone, compared with its digest."""
    try:
        return load_tensors(dense_content(checkpoint))
    except SafetensorError as error:
        raise CheckpointError(f"{checkpoint.path / DENSE}: {error}") from error


def load(checkpoint: Checkpoint, *, tables: dict[str, _native.Table]) -> dict[str, torch.Tensor]:
    """Verify, load the tables, and return the dense tensors."""
    # All files are verified before the first row is loaded, so that damage leaves the tables as they were.
    verify(checkpoint)
    tensors = dense_tensors(checkpoint)
    load_tables(checkpoint, tables)
    return tensors
