"""Who starts the processes of a job, and where: on this machine, over ssh, under MPI, on Ray.

launchers      the launchers by name, and what can be done with a job from its record
job_records    one file for each job that was started from here
local          on this machine
hosts          what the launchers over several hosts share
ssh, mpi, ray  one launcher each
suite, stack   everything from training to predictions on this machine
"""
