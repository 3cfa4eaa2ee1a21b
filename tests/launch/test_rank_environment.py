"""A rank reads who it is from what mpirun, mpiexec or srun has set."""

from __future__ import annotations

import shutil

import pytest

from clickline.errors import JobError
from clickline.launch.mpi.rank_environment import RankEnvironment, read_rank_environment
from support.processes import ENVIRONMENT, run

SLURM = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, RankEnvironment("mpirun", 1, 2)),
        ({"PMI_RANK": "0", "PMI_SIZE": "8"}, RankEnvironment("mpiexec", 0, 8)),
        ({**SLURM, "PMIX_RANK": "3"}, RankEnvironment("srun", 3, 4)),
        # mpirun inside of an allocation: its daemons are tasks of Slurm, its ranks are not.
        ({**SLURM, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, RankEnvironment("mpirun", 0, 2)),
    ],
    ids=["Open MPI", "MPICH", "Slurm", "Open MPI in Slurm"],
)
def test_each_launcher_is_understood(environ, expected):
    assert read_rank_environment(environ) == expected


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({}, "mpirun -np 2 --host node1,node2 clickline train job.yaml --on mpi"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, "this process is not one of them"),  # a batch script
        (SLURM, "--mpi=pmix"),
        ({"OMPI_COMM_WORLD_RANK": "x", "OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK is 'x'"),
        ({"PMI_RANK": "2", "PMI_SIZE": "2"}, "PMI_RANK is 2 and PMI_SIZE 2"),
    ],
    ids=["none", "batch script", "srun without PMI", "not a number", "too large"],
)
def test_what_is_not_a_rank_is_told_how_to_become_one(environ, words):
    with pytest.raises(JobError) as caught:
        read_rank_environment(environ)
    assert words in str(caught.value)


def test_a_library_that_knows_of_no_other_ranks_is_told_apart_from_a_launcher_that_does(tmp_path):
    """As if mpiexec were of one MPI, and the library that mpi4py loads of another."""
    if shutil.which("mpirun") is None:
        pytest.skip("there is no MPI library (packages openmpi-bin, libopenmpi3)")
    (tmp_path / "job.yaml").write_text("name: none\n")
    done = run("train", tmp_path / "job.yaml", "--on", "mpi", env={**ENVIRONMENT, "PMI_RANK": "0", "PMI_SIZE": "2"})
    assert done.returncode == 7, done.stderr
    assert "mpiexec has started 2 ranks, and the MPI library here knows of 1" in done.stderr
