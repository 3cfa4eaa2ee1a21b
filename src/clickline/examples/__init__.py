"""Examples that run as they are, from public data as it is downloaded to a table of figures."""
