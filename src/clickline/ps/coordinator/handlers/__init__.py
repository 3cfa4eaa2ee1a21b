"""The coordinator's replies to members: one function for each request, on the wire's threads, over the run's state."""
