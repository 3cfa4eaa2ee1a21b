"""What each path answers, and how each kind of mistake is told."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import httpx
import pytest

from clickline.launch.predictor_processes import PROTOCOLS
from clickline.net.request_errors import REASONS
from clickline.serve.http.routes import Router, all_routes
from clickline.serve.metrics.counters import METRICS
from clickline.serve.openapi.openapi import description
from support.doubles.serving_doubles import BODY, PROBABILITY, VERSION, Server, serving
from support.serving.raw_http import Talk, get, post

ROUTES = all_routes(PROTOCOLS)
INFER = {"inputs": [{"name": "C1", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}]}
ELASTIC = {"instances": [{"slots": [{"slot_name": "C1", "feasigns": [5]}, {"slot_name": "C2", "feasigns": [6]}]}]}


def test_predictions_of_people(client: httpx.Client) -> None:
    said = client.post("/predict", content=BODY).json()
    assert said == {"predictions": [PROBABILITY], "version": VERSION, "model": "ctr", "missing": 0}
    assert client.post("/models/ctr/predict", content=BODY).json() == said
    assert client.post("/predict?anything", content=BODY).json() == said
    assert client.post("/predict", json={"instances": [{"C1": "a"}, {}], "key": "u1"}).json()["missing"] == 5


def test_predictions_by_the_open_inference_protocol(client: httpx.Client, server: Server) -> None:
    said = client.post("/v2/models/ctr/infer", json={**INFER, "id": "x"}).json()
    assert (said["model_name"], said["model_version"], said["id"]) == ("ctr", str(VERSION), "x")
    assert (said["outputs"][0]["shape"], said["outputs"][0]["data"]) == ([2, 1], [PROBABILITY] * 2)
    client.post(f"/v2/models/ctr/versions/{VERSION - 1}/infer", json=INFER)
    assert server.predictor.asked[-1] == ("ctr", VERSION - 1, None)


def test_keys_are_passed_on_where_a_split_is_sticky(tmp_path: Path) -> None:
    split = {"main": {"variants": [{"model": "ctr"}], "sticky": True}}
    keyed = {"instances": [{"C1": "a"}], "key": "u1"}, {**INFER, "parameters": {"key": "u2"}}
    for splits, keys in (split, ["u1", "u2"]), ({}, [None, None]):
        with serving(tmp_path, splits=splits) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
            for path, body in zip(("/predict", "/v2/models/ctr/infer"), keyed, strict=True):
                assert client.post(path, json=body).status_code == 200
            assert [key for _, _, key in server.predictor.asked] == keys


def test_binary_tensors(client: httpx.Client) -> None:
    head = {"inputs": [{"name": "I1", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 4}}]}
    text = json.dumps({**head, "parameters": {"binary_data_output": True}}).encode()
    answer = client.post(
        "/v2/models/ctr/infer",
        content=text + b"\0\0\x80\x3f",
        headers={"Inference-Header-Content-Length": str(len(text))},
    )
    assert answer.headers["content-type"] == "application/octet-stream"
    length = int(answer.headers["inference-header-content-length"])
    assert json.loads(answer.content[:length])["outputs"][0]["parameters"] == {"binary_data_size": 4}
    assert answer.content[length:] == b"\0\0\x80\x3e"  # 0.25
    wrong = client.post("/v2/models/ctr/infer", content=text, headers={"Inference-Header-Content-Length": "x"})
    assert (wrong.status_code, wrong.json()["reason"]) == (400, "malformed")


@pytest.mark.parametrize("verb", ["inference", "debug"])
def test_the_older_shapes_tell_errors_in_the_body(client: httpx.Client, verb: str) -> None:
    path = f"/ElasticCTRPredictionService/{verb}"
    said = client.post(path, json=ELASTIC)
    assert said.json() == {"predictions": [{"prob0": 0.75, "prob1": 0.25}], "err_code": 0, "err_msg": ""}
    wrong = client.post(path, content=b"{}")
    assert (wrong.status_code, wrong.json()["err_code"]) == (200, -1)
    assert wrong.json()["err_msg"]
    path = f"/GeneralModelService/{verb}"
    tensor = {"name": "I1", "alias_name": "I1", "float_data": [3.0], "elem_type": 1, "shape": [1, 1]}
    said = client.post(path, json={"tensor": [tensor], "log_id": 9})
    assert (said.json()["err_no"], said.json()["log_id"]) == (0, 9)
    assert said.json()["outputs"][0]["tensor"][0]["float_data"] == [PROBABILITY]
    wrong = client.post(path, content=b"[")
    assert (wrong.status_code, wrong.json()["err_no"] != 0) == (200, True)


@pytest.mark.parametrize(
    ("path", "body", "status", "reason"),
    [
        ("/predict", b"", 400, "malformed"),
        ("/predict", b"{", 400, "malformed"),
        ("/predict", b'{"instances":[{"C9":1}]}', 400, "unknown_feature"),
        ("/predict", b'{"instances":[' + b",".join([b"{}"] * 11) + b"]}", 413, "too_large"),
        ("/models/no/predict", BODY, 404, "unknown_model"),
        ("/v2/models/ctr/versions/3/infer", json.dumps(INFER).encode(), 404, "unknown_version"),
        ("/v2/models/ctr/versions/new/infer", json.dumps(INFER).encode(), 404, "unknown_version"),
        ("/v2/models/ctr/infer", b"{}", 400, "malformed"),
        ("/nothing", BODY, 404, "unknown_path"),
        ("/models//predict", BODY, 404, "unknown_path"),
        ("/status", BODY, 405, "wrong_method"),
    ],
)
def test_every_mistake_has_its_status_and_reason(
    tmp_path: Path, path: str, body: bytes, status: int, reason: str
) -> None:
    with serving(tmp_path, limits={"rows": 10}) as server, httpx.Client(base_url=server.url, trust_env=False) as client:
        answer = client.post(path, content=body)
        assert (answer.status_code, answer.json()["reason"]) == (status, reason)
        assert set(answer.json()) == {"error", "reason"}
        # What is wrong with its features is known once the model is chosen.
        known = path == "/predict" or (path == "/v2/models/ctr/infer" and body != b"{}")
        named = ',model="ctr"' if known else ""
        assert f'clickline_failures_total{{reason="{reason}"{named}}} 1' in client.get("/metrics").text
        assert client.post("/predict", content=BODY).status_code == 200


def test_a_wrong_method_names_the_right_ones(client: httpx.Client) -> None:
    assert client.get("/predict").headers["allow"] == "POST, OPTIONS"
    assert client.delete("/v2").headers["allow"] == "GET, HEAD, OPTIONS"


def test_a_full_queue_sheds_load_and_says_when_to_come_again(client: httpx.Client, server: Server) -> None:
    server.predictor.full = True
    answer = client.post("/predict", content=BODY)
    assert (answer.status_code, answer.headers["retry-after"], answer.json()["reason"]) == (429, "1", "overloaded")
    older = client.post("/ElasticCTRPredictionService/inference", json=ELASTIC)
    assert (older.status_code, older.headers["retry-after"], older.json()["err_code"]) == (429, "1", -1)
    server.predictor.full = False
    assert client.post("/predict", content=BODY).status_code == 200


def test_a_bug_is_answered_with_500_and_told_in_the_log(
    client: httpx.Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.predictor.broken = True
    answer = client.post("/predict", content=BODY)
    assert (answer.status_code, answer.json()["reason"]) == (500, "internal")
    assert "a bug" not in answer.text
    assert "ZeroDivisionError" in caplog.text


def test_health_tells_alive_from_ready(client: httpx.Client, server: Server) -> None:
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/ctr/ready").json() == {"name": "ctr", "ready": True}
    assert client.get("/v2/models/no/ready").status_code == 404
    server.predictor.missing = True
    assert client.get("/v2/health/live").status_code == 200
    for path in ("/v2/health/ready", "/v2/models/ctr/ready", "/v2/models/ctr"):
        answer = client.get(path)
        assert (answer.status_code, answer.headers["retry-after"], answer.json()["reason"]) == (503, "1", "not_ready")
    assert client.post("/predict", content=BODY).status_code == 503


def test_the_server_and_its_models_describe_themselves(client: httpx.Client) -> None:
    assert client.get("/v2").json()["name"] == "clickline"
    said = client.get("/v2/models/ctr").json()
    assert (said["name"], said["versions"]) == ("ctr", [str(VERSION - 1), str(VERSION)])
    assert {"C1", "C2"} <= {tensor["name"] for tensor in said["inputs"]}
    status = client.get("/status").json()
    assert status["models"]["ctr"]["version"] == VERSION
    assert status["worker"]["connections"] == 1


def test_names_in_paths_may_be_encoded_and_a_slash_at_the_end_does_no_harm() -> None:
    router = Router(ROUTES)
    assert router.find("/models/a%20b%2Fc/predict").model == "a b/c"
    assert router.find("/v2/").route.template == "/v2"
    assert router.find("http://here:80/v2/models/m").model == "m"


def test_random_paths_do_not_fill_the_memory() -> None:
    router = Router(ROUTES)
    for number in range(5000):
        router.find(f"/models/{number}/predict")
    assert len(router._known) <= 1024


def test_every_route_is_described_and_nothing_else() -> None:
    described = {
        (path, method.upper())
        for path, operations in description(PROTOCOLS)["paths"].items()
        for method in operations
        if method in ("get", "post")
    }
    assert described == {(route.template, route.method) for route in ROUTES}
    assert set(description(PROTOCOLS)["components"]["schemas"]["Error"]["properties"]["reason"]["enum"]) == set(REASONS)


def test_the_page_for_people_needs_nothing_from_elsewhere(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "<script" not in page.text and "src=" not in page.text and "http://" not in page.text.replace("https://", "")
    assert all(route.template in page.text for route in ROUTES)
    assert client.get("/openapi.json").json() == description(PROTOCOLS, ("ctr",))


def test_every_metric_is_on_the_page_and_requests_are_counted(client: httpx.Client) -> None:
    for _ in range(3):
        client.post("/predict", content=BODY)
    client.post("/v2/models/ctr/infer", json=INFER)
    page = client.get("/metrics")
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert {line.split()[2] for line in page.text.splitlines() if line.startswith("# TYPE")} >= set(METRICS)
    lines = page.text.splitlines()
    assert 'clickline_requests_total{protocol="plain",model="ctr"} 3' in lines
    assert 'clickline_requests_total{protocol="v2",model="ctr"} 1' in lines
    assert "clickline_rows_total 5" in lines
    assert 'clickline_seconds_count{stage="read",model="ctr"} 4' in lines
    assert 'clickline_seconds_count{stage="total",model="ctr"} 4' in lines
    assert "clickline_connections 1" in lines
    assert "clickline_workers 1" in lines
    [age] = [line for line in lines if line.startswith('clickline_data_age_seconds{model="ctr"}')]
    assert float(age.split()[-1]) > 1e9


def test_the_access_log_says_how_it_went_and_never_what_was_sent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "clickline.serve.access")
    shown = "Authorization: Bearer a token nobody may see"
    with serving(tmp_path, access_log=1.0) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(post("/predict?secret=1", BODY, shown), get("/nothing", shown))
        talk.read(), talk.read()
    lines = [json.loads(record.message) for record in caplog.records if record.name == "clickline.serve.access"]
    assert [(one["path"], one["status"], one["rows"], one["version"]) for one in lines] == [
        ("/predict", 200, 1, VERSION),
        ("/nothing", 404, 0, None),
    ]
    assert all(one["microseconds"] > 0 for one in lines)
    assert "nobody may see" not in caplog.text and "68fd1e64" not in caplog.text and "secret" not in caplog.text


def test_without_a_share_nothing_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "clickline.serve.access")
    with serving(tmp_path) as server, server.connect() as connection:
        talk = Talk(connection)
        talk.send(get("/v2"))
        talk.read()
    assert not [record for record in caplog.records if record.name == "clickline.serve.access"]
