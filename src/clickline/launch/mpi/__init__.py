"""Training by the ranks that mpirun or srun has started, one or more on each host.

rank_environment   who this rank is, as its launcher's variables say
mpi_exchange       messages among all ranks over MPI, of which there are few, at the start
rank_messages      those messages
host_addresses     addresses of a host, and those by which hosts reach each other
rank_roles         which rank runs which processes
rank_plans         the same with addresses, ports and threads
first_rank         the exchange as rank 0 leads it
rank_preparation   what every rank says of itself and prepares
rank_runner        a rank that runs what rank 0 has assigned to it
rank_connections   connections between rank 0 and all ranks while the job runs
mpi_launcher       a whole run
mpi_jobs           a job by its record
mpirun_launch      ranks that are started by mpirun from here
submitted_rank     one of those ranks
"""
