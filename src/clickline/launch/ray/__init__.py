"""Training on a Ray cluster that is running: Ray places the processes, Clickline's runner carries them out.

ray_cluster      the connection to the cluster, and its nodes
role_actor       on a node: one role of a job as a real process, with a runner
role_placement   a placement group with a bundle for each role, and the actors in it
ray_connection   the runner in an actor, and what it reports
ray_launcher     a whole run, also when a node is lost
ray_jobs         status, logs and stop of a job by its record
"""
