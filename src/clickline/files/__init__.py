"""Files on disk: atomic replacement, locks, digests, and points at which tests kill a process between two writes."""
