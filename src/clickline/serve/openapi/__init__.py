"""The OpenAPI description of the server, and its page for people."""
