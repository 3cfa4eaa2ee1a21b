"""The access log: a random share of the requests, one JSON object each: when, what, how it ended, how long it took.

Bodies are never logged, and a path is logged without its query.
"""

from __future__ import annotations

import json
import logging
import random
import time

from clickline.serve.http.http_messages import Response
from clickline.serve.http.request_exchange import RequestExchange

log = logging.getLogger("clickline.serve.access")
_LONGEST_PATH = 200


class AccessLog:
    """Logs requests at random."""

    def __init__(self, share: float) -> None:
        self.share = share

    def note(self, exchange: RequestExchange, response: Response, seconds: float) -> None:
        """Log the request if it is drawn. Only called if the share is above 0."""
        if random.random() >= self.share:
            return
        request = exchange.request
        entry = {
            "time": round(time.time(), 3),
            "method": "" if request is None else request.method,
            "path": "" if request is None else request.path[:_LONGEST_PATH],
            "status": response.status,
            "rows": exchange.rows,
            "version": exchange.version or None,
            "microseconds": round(seconds * 1e6),
        }
        log.info("%s", json.dumps(entry))
