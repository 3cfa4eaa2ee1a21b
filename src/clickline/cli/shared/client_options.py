"""Options of verbs that are clients of a predictor, and its refusals as errors with an exit code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from clickline.client.client import Client
    from clickline.net.predictor_documents import ModelMetadata

DEFAULT_URL = "http://127.0.0.1:8010"
_ADDRESS = f"The predictor's address; if not given, that of the suite in --state, else {DEFAULT_URL}."
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help=_ADDRESS, show_default=False)]
UrlArgument = Annotated[str | None, typer.Argument(metavar="[URL]", help=_ADDRESS, show_default=False)]
State = Annotated[Path, typer.Option("--state", metavar="STATE", help="The state directory of `clickline up`.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="Which one, where it serves several.", show_default=False)
]


def predictor_url(url: str | None, state: Path) -> str:
    """The address named; else that of the suite which is up in the state directory; else where `serve` listens."""
    from clickline.launch.suite_state import is_up, read_suite

    if url is not None:
        return url
    # What a killed suite has left names a port that may be anybody's by now.
    record = (read_suite(state) if is_up(state) else None) or {}
    return record.get("http") or DEFAULT_URL


def client_of(url: str, *, timeout: float, token: str | None = None) -> Client:
    """A client of a predictor; its token is CLICKLINE_TOKEN's, if there is one and none is given."""
    from clickline.client.client import Client

    return Client(url, timeout=timeout, token=token)


@contextmanager
def refusals_as_errors() -> Iterator[None]:
    """Turn what the server refuses into an error whose exit code says whose fault it is."""
    from clickline.errors import DataError, PeerError, VersionError
    from clickline.net.request_errors import RequestError

    kinds = {400: DataError, 413: DataError, 404: VersionError}
    try:
        yield
    except RequestError as error:
        raise kinds.get(error.status, PeerError)(f"{error} ({error.reason})") from None


def model_metadata(client: Client, model: str | None) -> ModelMetadata:
    """A model's inputs and outputs; the default model's if none is named."""
    from clickline.client.http_requests import default_model

    return client.describe(model or default_model(client.status()))
