"""Several hosts on one machine: network namespaces, with an sshd, under mpirun or Slurm, and nodes of Ray."""
