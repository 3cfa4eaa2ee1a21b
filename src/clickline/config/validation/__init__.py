"""Rules between keys of a job: when a key has an effect, and which keys contradict each other."""
