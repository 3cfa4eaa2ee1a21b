"""What goes on while faults are injected: the suite, trainings, publications, clients."""
