"""Training on hosts that are reached over ssh and share nothing.

ssh_client        the OpenSSH client: commands on a host, and why a connection failed
host_checks       everything that is wrong with the hosts, before anything is started
workspace         the files of a job, sent to each host as far as it lacks them
job_environment   Clickline from a wheel, installed for one job
host_connection   a host's runner, and what it reports
ssh_launcher      a whole run
remote            scripts that run on a host before Clickline is known to be there
"""
