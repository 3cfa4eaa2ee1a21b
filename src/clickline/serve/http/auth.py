"""Who may ask: a token or a client certificate, once the server can be reached from beyond this machine.

On a loopback address nobody needs to say anything. Beyond it, the server does not even start without one of the two.
Health is open to everybody who gets as far as to ask: whoever looks after the process need not know the secret.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from clickline.errors import JobError
from clickline.net.addresses import is_loopback


class Guard:
    """Knows whether a token has to be shown."""

    def __init__(self, *, host: str, token: bytes | None, certificates: bool) -> None:
        """`certificates`: only clients with a certificate of ours get through; they need no token."""
        public = not is_loopback(host)
        if public and token is None and not certificates:
            raise JobError(
                f"{host or 'every address'} can be reached by others: set CLICKLINE_TOKEN, which clients then send as "
                "'Authorization: Bearer …', or tls.clients, for client certificates; or listen on 127.0.0.1."
            )
        self.token = token if public and not certificates else None
        """What has to be shown; None: nothing."""


def tls_context(*, certificate: str | Path, key: str | Path, clients: str | Path | None) -> ssl.SSLContext:
    """TLS 1.2 or later. With `clients`, the certificates of an authority, only who has one signed by it is let in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Ours comes first: who speaks both gets HTTP/1.1; gRPC speaks h2 only.
    context.set_alpn_protocols(["http/1.1", "h2"])
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise JobError(f"tls: certificate {certificate} with key {key} cannot be used: {error}.") from None
    if clients:
        try:
            context.load_verify_locations(clients)
        except (OSError, ssl.SSLError) as error:
            raise JobError(f"tls.clients: {clients} cannot be used: {error}.") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
