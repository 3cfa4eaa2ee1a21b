"""The HTTP/1.1 server of a worker: connections, parsing, limits, routes, handlers."""
