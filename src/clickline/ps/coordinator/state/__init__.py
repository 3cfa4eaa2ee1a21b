"""The state of a run, in parts: RunState owns them, and the lock that guards them all.

run_state          data, lock and conditions; what changes several parts at once
lifecycle          how far the run has come, and whether it is ending
record             what is written to disk at every change
members            the processes that take part
incarnations       which process of a name counts
leased_work        the lease table, and the pieces it is about
snapshot_schedule  when a snapshot is due, and who stands still for it
failures           who is gone, and what becomes of their leases
metric_windows     figures over what trainers report
"""
