"""Another number of shards or replicas for the cube of a suite that serves."""
