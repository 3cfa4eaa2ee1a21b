"""Training on Kubernetes from the command line, and from pods of plain YAML.

cluster_access        the API server of a kubeconfig, or of the pod we run in
cluster_client        requests to it
cluster_checks        what a cluster lacks for a job, before anything is made
job_manifests         the PaddleJob of a job, and its files
pod_templates         pods of its roles
job_files             the content of its ConfigMap
given_manifests       the same from a folder, where they may have been edited
pod_logs              what its pods write
job_monitor           a job up to its end
job_ending            its end before its time
kubernetes_launcher   a whole run
kubernetes_jobs       status, logs and stop of a job by its record
plain                 pods of a ReplicaSet and a Job that find each other by their labels
"""
