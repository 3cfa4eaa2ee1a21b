"""Object stores by URL: reading, writing and locking where there are no renames, no appends and no file locks."""
