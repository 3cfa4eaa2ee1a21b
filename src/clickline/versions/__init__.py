"""Published versions: the store, donefile, manifest, chain of base and deltas. Reading them needs no PyTorch."""
