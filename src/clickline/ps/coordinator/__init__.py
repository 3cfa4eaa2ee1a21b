"""The coordinator: members, leases, snapshots, failures, epochs."""
