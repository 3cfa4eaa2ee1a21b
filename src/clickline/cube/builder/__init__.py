"""The builder: a published version cut into one file for each shard, and where versions come from."""
