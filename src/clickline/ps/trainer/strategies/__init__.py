"""What a trainer does between a gradient and new parameters: async, half_async, sync, geo."""
