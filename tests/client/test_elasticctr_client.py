"""ElasticCTRAPI: the older client's calls, and what they send."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clickline.compat.elasticctr.elasticctr_client import ElasticCTRAPI
from support.doubles.predictor_double import PredictorDouble, answer_bytes


@pytest.fixture
def api(double: PredictorDouble, tmp_path: Path) -> Iterator[ElasticCTRAPI]:
    (tmp_path / "slot.conf").write_text("0\n1\n\n2\n", encoding="utf-8")
    made = ElasticCTRAPI("127.0.0.1", str(double.server_address[1]))
    assert made.read_slots_conf(tmp_path / "slot.conf") == 0
    yield made
    made.close()


def slots(double: PredictorDouble) -> list[dict[str, list[int]]]:
    path, _, body = double.asked[-1]
    assert path == "/ElasticCTRPredictionService/inference"
    return [{one["slot_name"]: one["feasigns"] for one in each["slots"]} for each in json.loads(body)["instances"]]


def test_absent_slots_are_filled_with_zero(api: ElasticCTRAPI, double: PredictorDouble) -> None:
    first, second = api.add_instance(), api.add_instance()
    assert api.add_slot(first, "0", [123, 2**64 - 1]) == 0
    assert api.add_slot(second, 2, (5,)) == 0
    said = api.inference()
    assert (said["err_code"], len(said["predictions"])) == (0, 2)
    assert slots(double) == [{"0": [123, 2**64 - 1], "1": [0], "2": [0]}, {"0": [0], "1": [0], "2": [5]}]


def test_instances_stay_until_they_are_cleared(api: ElasticCTRAPI, double: PredictorDouble) -> None:
    api.add_slot(api.add_instance(), "0", [1])
    first = api.inference()
    asked = slots(double)
    assert asked == [{"0": [1], "1": [0], "2": [0]}]
    assert api.inference() == first
    assert slots(double) == asked
    api.clear()
    api.add_slot(api.add_instance(), "0", [2])
    api.inference()
    assert slots(double) == [{"0": [2], "1": [0], "2": [0]}]


def test_slots_that_the_conf_does_not_list_are_refused(api: ElasticCTRAPI, capsys: Any) -> None:
    assert api.add_slot(api.add_instance(), "9", [1]) == -1
    assert "'9' is not in the slot conf; it lists 0, 1, 2" in capsys.readouterr().err


def test_a_conf_that_is_not_there_is_minus_one(double: PredictorDouble, tmp_path: Path, capsys: Any) -> None:
    assert ElasticCTRAPI("127.0.0.1", double.server_address[1]).read_slots_conf(tmp_path / "none") == -1
    assert "none" in capsys.readouterr().err


def test_without_a_conf_all_instances_name_the_same_slots(double: PredictorDouble) -> None:
    api = ElasticCTRAPI("127.0.0.1", double.server_address[1])
    api.add_slot(api.add_instance(), "a", [1])
    api.add_slot(api.add_instance(), "b", [2])
    api.inference()
    api.close()
    assert slots(double) == [{"a": [1], "b": [0]}, {"a": [0], "b": [2]}]


def test_the_older_errors_are_handed_on(api: ElasticCTRAPI, double: PredictorDouble) -> None:
    body = b'{"predictions":[],"err_code":-1,"err_msg":"Sample size invalid"}'
    double.script.append(answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    api.add_instance()
    assert api.inference()["err_msg"] == "Sample size invalid"
