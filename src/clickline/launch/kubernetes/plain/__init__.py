"""Pods of plain YAML, a ReplicaSet of servers and a Job of trainers, as PaddlePaddle's `paddle_k8s` runs them.

plain_settings     what the variables of the pod say
plain_pods         the pods of a job, by their labels
rank_claims        which pod has which rank, kept in a ConfigMap
peer_discovery     waits until all are there, and puts the environment together
entry_command      runs the command of the pod
"""
