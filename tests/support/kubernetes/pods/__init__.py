"""Training in pods of a real cluster: runs, where they are kept, and what happens to them."""
