"""What verbs that ask a predictor share: its address, and errors with an exit code of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from clickline.serve.clients import Client

Url = Annotated[str, typer.Option("--url", metavar="URL", help="The predictor's address.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Which one, where it serves several.", show_default=False)
]


def connected(url: str, *, timeout: float) -> Client:
    """A client; the token is CLICKLINE_TOKEN's, if there is one."""
    from clickline.serve.clients import Client

    return Client(url, timeout=timeout)


@contextmanager
def asked() -> Iterator[None]:
    """What the server refuses becomes an error that says by its exit code whose fault it is."""
    from clickline.errors import DataError, PeerError, VersionError
    from clickline.serve.requests import RequestError

    kinds = {400: DataError, 413: DataError, 404: VersionError}
    try:
        yield
    except RequestError as error:
        raise kinds.get(error.status, PeerError)(f"{error} ({error.reason})") from None


def described(client: Client, model: str | None) -> dict[str, Any]:
    """What a model says of itself, the default one if none is named."""
    from clickline.serve.asking import default_model

    return client.describe(model or default_model(client.status()))
