"""ElasticCTR's Python client."""
