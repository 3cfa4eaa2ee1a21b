"""The PaddleJob operator: training jobs on Kubernetes as one declared object each.

`job` is what a PaddleJob says and what its status holds, and the custom resource definition made of it. `objects` are
the pods, services, endpoints and groups that a job comes to. `reconcile` compares the two, without a cluster;
`controller` is the thin layer that asks the API server for the difference.
"""
