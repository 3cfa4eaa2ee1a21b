"""From a job and its hosts to what each host runs.

job_placement  where processes run, and what all plans of a job have in common
job_plan       whether it can be, and the plan of each host
server_plan    the same for parameter servers
rank_plan      the same for ranks of strategy collective
"""
