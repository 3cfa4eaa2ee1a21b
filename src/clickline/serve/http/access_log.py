"""Some requests in the log, one JSON object each: when, what, how it ended, how long it took. Never what was in it.

Which ones is left to chance, by the share that the configuration names. A path is logged without its query.
"""

from __future__ import annotations

import json
import logging
import random
import time

from clickline.serve.http.exchange import Exchange
from clickline.serve.http.http_messages import Response

log = logging.getLogger("clickline.serve.access")
_LONGEST_PATH = 200


class AccessLog:
    def __init__(self, share: float) -> None:
        self.share = share

    def note(self, exchange: Exchange, response: Response, seconds: float) -> None:
        """If chance wants it. Call it only if there is a share at all."""
        if random.random() >= self.share:
            return
        request = exchange.request
        facts = {
            "time": round(time.time(), 3),
            "method": "" if request is None else request.method,
            "path": "" if request is None else request.path[:_LONGEST_PATH],
            "status": response.status,
            "rows": exchange.rows,
            "version": exchange.version or None,
            "microseconds": round(seconds * 1e6),
        }
        log.info("%s", json.dumps(facts))
