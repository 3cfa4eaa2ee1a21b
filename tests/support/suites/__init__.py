"""`clickline up` as a thread and as a process, and random faults on it."""
