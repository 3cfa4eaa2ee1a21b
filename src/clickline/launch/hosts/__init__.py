"""What all launchers over several hosts share: a plan of who runs where, and the runner that carries it out on a host.

host_messages       the plan of a host, and what its runner reports, as lines of JSON
hosts_run           a run while it lasts: connections, events, hosts that go and come back
plans               from a job and its hosts to the plan of each
data_view           whether hosts see the data of a job
host_list           hosts from a file in place of the job's: conf.py, hostfile, YAML
checkpoint_command  a command that is run on the first host at each checkpoint
runner_connection   connections to runners, whichever launcher makes them
node_work           scripts and files of a node before and after the processes; node_files copies those
launcher_watch      the launcher as a runner has it
workspace_archive   a workspace as one archive
host_runner         runs the processes of one host, for as long as whoever started it is there
"""
