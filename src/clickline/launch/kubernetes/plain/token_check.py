"""The token that the processes of a job know each other by, before anything waits for anybody."""

from __future__ import annotations

from collections.abc import Mapping

from clickline.errors import JobError
from clickline.net.tokens import read_token

_REMEDY = """\
to give it to all pods, make a Secret once:
  kubectl create secret generic clickline-token --from-literal=token="$(openssl rand -hex 32)"
and add this to the env of both containers:
  - name: CLICKLINE_TOKEN
    valueFrom:
      secretKeyRef: {name: clickline-token, key: token}"""


def check_token(env: Mapping[str, str]) -> None:
    """Raise JobError, with what to add to the YAML, unless there is a token."""
    try:
        read_token(env)
    except JobError as error:
        raise JobError(f"{error}\n{_REMEDY}") from None
