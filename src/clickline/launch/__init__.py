"""The processes of a job on one machine: what each is told, how it is started, watched and stopped."""
