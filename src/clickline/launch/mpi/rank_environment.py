"""Who this process is among the ranks that an MPI launcher has started, by the variables that the launcher sets."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from clickline.errors import JobError

_SRUN = "srun"
_OWN_PREFIXES = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "HYDRA_")


@dataclass(frozen=True, slots=True)
class _Variables:
    """Names under which one kind of launcher tells a rank who it is."""

    launcher: str
    rank: str
    size: str


_KNOWN = (
    _Variables("mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Variables("mpiexec", "PMI_RANK", "PMI_SIZE"),  # of MPICH and its kin; srun --mpi=pmi2 sets them, too
    # Last: mpirun inside of an allocation sets its own beside these. Those of the step, since a batch script has
    # SLURM_PROCID and SLURM_NTASKS too, and is not a rank.
    _Variables(_SRUN, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
)
START = "mpirun -np 2 --host node1,node2 clickline train job.yaml --on mpi"


@dataclass(frozen=True, slots=True)
class RankEnvironment:
    """What the launcher says of this rank."""

    launcher: str
    """mpirun (of Open MPI), mpiexec (of MPICH) or srun."""
    rank: int
    size: int

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def read_rank_environment(environ: Mapping[str, str] = os.environ) -> RankEnvironment:
    """Who this rank is. Raises JobError if no MPI launcher has started it."""
    for names in _KNOWN:
        if names.rank in environ and names.size in environ:
            rank, size = _number(environ, names.rank), _number(environ, names.size)
            if rank >= size:
                raise JobError(f"{names.rank} is {rank} and {names.size} {size}; ranks are numbered from 0 to SIZE - 1")
            if names.launcher == _SRUN and "PMIX_RANK" not in environ:
                raise JobError(
                    "srun has started this rank without an interface by which ranks find each other: add --mpi=pmix, "
                    "or another that the MPI library here speaks (srun --mpi=list)"
                )
            return RankEnvironment(names.launcher, rank, size)
    raise JobError(
        f"--on mpi is for ranks that mpirun or srun has started, and this process is not one of them: {START}, "
        "or the same under srun --mpi=pmix"
    )


def is_rank(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether an MPI launcher has started this process."""
    return any(names.rank in environ and names.size in environ for names in _KNOWN)


def forget_rank_environment() -> None:
    """Remove what the launcher has set: a child of this rank is not a rank, whatever it may load."""
    for name in [name for name in os.environ if name.startswith(_OWN_PREFIXES)]:
        del os.environ[name]


def _number(environ: Mapping[str, str], name: str) -> int:
    text = environ[name]
    if not text.isascii() or not text.isdecimal():
        raise JobError(f"{name} is {text!r}, a number was expected; the MPI launcher sets it")
    return int(text)
