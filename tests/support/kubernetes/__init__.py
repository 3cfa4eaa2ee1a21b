"""A Kubernetes API server for tests, the operator as a process, and the part of the kubelet that the tests play."""
