"""What reading rows costs is logged: microseconds per request and per key, every thousand requests."""

from __future__ import annotations

import logging
import re

import pytest

from clickline.serve.predictor.served_model import ServedModel
from clickline.versions.golden_sample import read_sample
from support.versions.known_versions import Known

LINE = re.compile(r"reading rows: (\d+\.\d) us/request, (\d+\.\d{3}) us/key over the last (\d+) requests")


def test_a_line_every_thousand_requests(served: ServedModel, known: Known, caplog: pytest.LogCaptureFixture) -> None:
    loaded = served.model_version()
    assert known.store.directory is not None
    folder = known.store.directory / "v0000000003"
    batch = read_sample(folder / loaded.manifest.sample, schema=loaded.schema).batch
    with caplog.at_level(logging.INFO, logger="clickline.serve"):
        for requests in (400, 400, 199):
            loaded.predict(batch, requests=requests)
        assert not [record for record in caplog.records if "reading rows" in record.getMessage()]
        loaded.predict(batch, requests=1)
        loaded.predict(batch, requests=999)
    (line,) = [record.getMessage() for record in caplog.records if "reading rows" in record.getMessage()]
    match = LINE.fullmatch(line)
    assert match is not None, line
    assert int(match[3]) == 1000
    assert float(match[1]) > float(match[2]) >= 0.0  # a request has several keys
