"""Authentication: a token or a client certificate, once the server can be reached from beyond this machine.

On a loopback address neither is required. Beyond it, the server does not even start without one of the two. Health is
answered without the token: a supervisor that probes the process need not know the secret.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from clickline.errors import JobError
from clickline.net.addresses import is_loopback


class TokenAuth:
    """The rule whether clients have to show a token."""

    def __init__(self, *, host: str, token: bytes | None, certificates: bool) -> None:
        """`certificates`: TLS admits only clients with a certificate of ours; they need no token. Raises JobError where
        neither protects an address that others can reach."""
        public = not is_loopback(host)
        if public and token is None and not certificates:
            raise JobError(
                f"{host or 'every address'} can be reached by others: set CLICKLINE_TOKEN, which clients then send as "
                "'Authorization: Bearer …', or tls.clients, for client certificates; or listen on 127.0.0.1"
            )
        self.token = token if public and not certificates else None
        """The token that has to be shown; None: none."""


def tls_context(*, certificate: str | Path, key: str | Path, clients: str | Path | None) -> ssl.SSLContext:
    """TLS 1.2 or later. `clients`: certificates of an authority; only clients with one signed by it are admitted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # HTTP/1.1 first: a client that speaks both gets it; gRPC speaks h2 only.
    context.set_alpn_protocols(["http/1.1", "h2"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise JobError(f"tls: certificate {certificate} with key {key} cannot be used: {error}") from None
    if clients:
        try:
            context.load_verify_locations(clients)
        except (OSError, ssl.SSLError) as error:
            raise JobError(f"tls.clients: {clients} cannot be used: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
