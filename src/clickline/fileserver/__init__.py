"""The file server: a directory over HTTP, with ranges, digests, uploads and listings."""
