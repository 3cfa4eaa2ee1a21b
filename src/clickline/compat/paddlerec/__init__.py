"""PaddleRec's config.yaml and backend.yaml: read as they are and translated into our own job."""
