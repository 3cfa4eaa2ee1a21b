"""Transfer: follows published versions, builds them for each shard, and reconciles all servers with them."""
