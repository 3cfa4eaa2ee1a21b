"""Random faults on a whole suite while it trains, publishes and serves: `make chaos`, and a short form in CI.

plan        one seed → one sequence of (time, kind, target)
scheduler   carries the plan out, lane by lane, so that two replicas are never harmed together
faults/     the kinds of fault: processes, network, disks, twins, hostile clients
workload/   the suite, a training that never ends, publications, clients that recompute each answer
books       what was promised and what was seen; the timeline; the exit code
"""
