"""A whole suite on Kubernetes: training, publishing, delivery and serving by one command.

values             what a user may change, one YAML file
objects            the objects of each part, and the files that hold them
suite_objects      all of them, for what a cluster knows
training_window    what the training pod does: hour by hour, train and publish
suite_deployment   makes a suite in a cluster and waits for its first prediction
deployed_suite     finds one again: its pods, its address, its size, its end
deployed_health    how it is
"""
