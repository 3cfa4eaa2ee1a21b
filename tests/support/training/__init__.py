"""Parts of training: coordinators, strategies and ranks, data that holds orders, random faults."""
