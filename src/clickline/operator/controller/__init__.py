"""The part of the operator that talks to the API server: watches, a queue of jobs, and the steps of a plan."""
