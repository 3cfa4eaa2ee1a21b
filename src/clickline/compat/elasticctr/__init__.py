"""ElasticCTR: its Python client, and its prediction service over HTTP."""
