"""Submission of PaddleRec's files, and of jobs of our own, to a cluster: a folder with everything, which can be edited.

submit_options     what job.sh says: which backend, how many nodes, which command
start_command      the command of the nodes, as far as it is understood
upload_files       files that go along, by the globs of `files`
credentials        ak, sk and fs_ugi: where they come from, and that they stay out of every file
config_ini         config.ini: data, output and environment of the nodes
node_storage       file systems of the nodes, and the credentials for them
job_script         job.sh, written and read, never executed from here
paddlecloud_files  a folder that was written by hand for PaddleCloud's client
generated_files    hooks, and all files that are made for a folder
submission_folder  a folder, made whole or not at all
submission         a folder as it is read: the job, its nodes and their steps
kubernetes_files   manifests for paddle-operator
"""
