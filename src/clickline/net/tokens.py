"""Bearer tokens: read from the environment by those who check or send one, and compared in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from pathlib import Path

from clickline.errors import JobError
from clickline.net.addresses import is_loopback

_SHORTEST_TOKEN = 16


class BearerToken:
    """The token that requests which change something must show; none on a loopback address that is open to all."""

    def __init__(self, *, token: bytes, host: str, open_to_all: bool) -> None:
        if open_to_all and not is_loopback(host):
            raise JobError(f"--open without a token is for loopback addresses only, not {host}: others could reach it")
        self._token = None if open_to_all else token

    def admits(self, authorization: str) -> bool:
        """Whether a request with this Authorization header may change something."""
        return self._token is None or shows_token(authorization.encode("latin-1"), self._token)


def shows_token(authorization: bytes, token: bytes) -> bool:
    """Whether a header, or gRPC's metadata, is `Bearer` and the token. Takes as long whatever is wrong with it."""
    kind, _, given = authorization.partition(b" ")
    return kind.lower() == b"bearer" and hmac.compare_digest(given.strip(), token)


def token_proof(token: str, *words: str) -> str:
    """Shows that who says these words knows the token, without sending it; a nonce of the other side is among them."""
    return hmac.new(token.encode(), "|".join(words).encode(), "sha256").hexdigest()


def proves_token(proof: str, token: str, *words: str) -> bool:
    """Whether a proof is of this token and these words. Takes as long whatever is wrong with it."""
    return hmac.compare_digest(proof.encode(), token_proof(token, *words).encode())


def read_token(environ: Mapping[str, str]) -> bytes:
    """The job's token, from CLICKLINE_TOKEN or the file that CLICKLINE_TOKEN_FILE names. No message repeats it."""
    token, file = environ.get("CLICKLINE_TOKEN", ""), environ.get("CLICKLINE_TOKEN_FILE", "")
    if not token and file:
        try:
            token = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise JobError(f"CLICKLINE_TOKEN_FILE: {file!r} cannot be read as text") from None
    token = token.strip()
    if len(token) < _SHORTEST_TOKEN:
        problem = f"has fewer than {_SHORTEST_TOKEN} characters" if token else "is not set"
        raise JobError(
            f"CLICKLINE_TOKEN {problem}: it is how the processes of a job know each other; give all of them the same, "
            "such as the output of `openssl rand -hex 32`"
        )
    return token.encode()
