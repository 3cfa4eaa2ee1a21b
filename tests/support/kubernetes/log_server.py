"""The kubelet's part of `kubectl logs`: an HTTPS server on loopback that the API server asks for the logs of pods.

Kubelets cannot be had without a full cluster; the API server, and what passes through it, is real.
"""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def log_server(directory: Path) -> Iterator[int]:
    """Serves DIRECTORY/POD-….log as the log of a pod; its port."""
    certificate = directory / "kubelet.pem"
    out = ["-keyout", str(certificate), "-out", str(directory / "kubelet.crt")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1", *out],
        check=True,
        capture_output=True,
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pod = self.path.partition("?")[0].split("/")[3]  # /containerLogs/NAMESPACE/POD/CONTAINER
            files = sorted(directory.glob(f"{pod}-*.log"))
            self.send_response(200 if files else 404)
            self.end_headers()
            # All that there is so far, whatever was asked for: as when connections do not last.
            for number, line in enumerate(files[-1].read_bytes().splitlines() if files else ()):
                stamp = b"2026-01-01T00:%02d:%02d.000000000Z " % divmod(number, 60)
                self.wfile.write((stamp if "timestamps=true" in self.path else b"") + line + b"\n")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "kubelet.crt", certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
