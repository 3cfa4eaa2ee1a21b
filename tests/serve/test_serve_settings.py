"""The file that a predictor is configured with: what is wrong in it is said by key and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clickline.errors import JobError
from clickline.serve.predictor.configured_predictor import configured_predictor
from clickline.serve.serve_settings import ServeConfig, read_serve_config, read_suite_config

WHOLE = """
listen: 127.0.0.1:9000
workers: 2
models:
  ctr: {store: /data/ctr}
  next:
    store: s3://bucket/next
    cube: {servers: [["tcp:10.0.0.1:8027", "tcp:10.0.0.2:8027"]], name: next, failure: zeros, timeout: 0.1}
    interval: 2
    keep: 3
splits:
  main: {variants: [{model: ctr, weight: 9, tag: a}, {model: next, tag: b}], sticky: true}
shadows:
  ctr: {model: next, share: 0.1}
default: main
limits: {queue: 10, delay: 0.002}
tls: {certificate: /c.pem, key: /k.pem}
access_log: 0.01
grpc: false
"""


def read(tmp_path: Path, text: str) -> ServeConfig:
    (tmp_path / "serve.yaml").write_text(text)
    return read_serve_config(tmp_path / "serve.yaml")


def test_everything_can_be_said(tmp_path: Path) -> None:
    config = read(tmp_path, WHOLE)
    assert config.models["next"].cube is not None
    assert (config.models["next"].cube.failure, config.models["next"].cube.hedge) == ("zeros", 0.02)
    assert [one.weight for one in config.splits["main"].variants] == [9, 1]
    assert (config.default_model, config.limits.queue, config.limits.rows) == ("main", 10, 4096)


def test_a_store_is_enough(tmp_path: Path) -> None:
    config = read(tmp_path, "models: {ctr: {store: /data/ctr}}")
    assert (config.listen, config.workers, config.grpc, config.default_model) == ("127.0.0.1:8010", 1, True, "ctr")
    limits = config.limits
    assert (limits.body, limits.queue, limits.batch_rows, limits.delay, limits.timeout) == (16 << 20, 256, 512, 0, 1.0)
    two = read(tmp_path, "models: {a: {store: x}, b: {store: y}}")
    assert two.default_model == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {ctr: {stor: x}}", r"models\.ctr\.stor, line 1: unknown key; did you mean store\?"),
        ("models: {ctr: {store: x}}\nlimit: {}", r"limit, line 2: unknown key; did you mean limits\?"),
        ("models: {ctr: {store: x}}\nlimits:\n  queue: 0", r"limits\.queue, line 3: 0 is too small"),
        ("models: {ctr: {store: x}}\nlimits: {body: 16 MiB}", r'limits\.body.*"16 MiB" is not an integer'),
        ("models: {ctr: {store: ''}}", r"models\.ctr\.store.*is empty"),
        ("models: {}", r"models.*at least 1"),
        ("listen: 127.0.0.1:1", r"models.*missing"),
        ("models: {a b: {store: x}}", r"a name of letters, digits"),
        ("models: {ctr: {store: x, cube: {servers: []}}}", r"servers.*replicas by shard, or the path of a cube\.conf"),
        ("models: {ctr: {store: x, cube: {servers: [tcp:a:1]}}}", r"servers.*replicas by shard"),
        (
            "models: {ctr: {store: x, cube: {servers: y, failure: zero}}}",
            r'"zero" is not one of error, zeros; did you mean zeros\?',
        ),
        (
            "models: {ctr: {store: x}}\nsplits: {m: {variants: [{model: crt}]}}",
            r"splits\.m\.variants\[0\]\.model, line 2: there is no 'crt'; did you mean ctr\?",
        ),
        (
            "models: {ctr: {store: x}}\nsplits: {m: {variants: [{model: ctr}, {model: ctr}]}}",
            r"two variants have the same tag: ctr, ctr",
        ),
        ("models: {ctr: {store: x}}\nsplits: {m: {variants: [{model: ctr, weight: 0}]}}", r"weight.*more than 0"),
        (
            "models: {ctr: {store: x}}\nshadows: {ctr: {model: other}}",
            r"ctr\.model, line 2: there is no 'other'",
        ),
        ("models: {ctr: {store: x}}\nshadows: {ctr: {model: ctr}}", r"cannot be its own shadow"),
        ("models: {ctr: {store: x}}\ndefault: main", r"default, line 2: there is no 'main'; known names: ctr"),
        ("models: {ctr: {store: x}}\ntoken: abc", r"token, line 2: unknown key"),
        ("[1, 2]", "a predictor's configuration is a mapping of keys to values, not a list"),
        ("models: {ctr: [", "serve.yaml"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(JobError, match=said):
        read(tmp_path, text)


def test_names_that_do_not_fit_are_reported_with_all_other_mistakes(tmp_path: Path) -> None:
    text = """models:
  ctr: {store: x, intervall: 1}
  deep: {stor: y}
splits:
  main:
    variants:
      - {model: ctr, weight: 0}
      - {model: dep}
shadows:
  ctr: {model: ctr}
limits: {queue: 0}
default: mein
"""
    with pytest.raises(JobError) as failure:
        read(tmp_path, text)
    assert [(one.key, one.line) for one in failure.value.errors] == [
        ("models.ctr.intervall", 2),
        ("models.deep.store", 3),
        ("models.deep.stor", 3),
        ("splits.main.variants[0].weight", 7),
        ("splits.main.variants[1].model", 8),
        ("shadows.ctr.model", 10),
        ("limits.queue", 11),
        ("default", 12),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "models: {ctr: {store: x}}\nsplits: 3",
        "models: {ctr: {store: x}}\nsplits: {m: [1]}",
        "models: {ctr: {store: x}}\nsplits: {m: {variants: [3, null, {model: [1]}]}}",
        "models: {ctr: {store: x}}\nshadows: {ctr: null}",
        "models: {ctr: {store: x}}\nshadows: {ctr: {model: {}}}\ndefault: [1]",
        "models: 3\ndefault: ctr",
    ],
)
def test_values_of_any_shape_are_checked_against_each_other(tmp_path: Path, text: str) -> None:
    with pytest.raises(JobError, match=r"serve\.yaml: \d error"):
        read(tmp_path, text)


def test_a_suite_adds_its_own_model(tmp_path: Path) -> None:
    text = """models:
  next: {store: /data/next}
  ctr: {keep: 3, cube: {row_cache: 1000000}}
splits:
  main: {variants: [{model: ctr}, {model: next}]}
shadows:
  ctr: {model: next}
default: main
"""
    file = tmp_path / "serve.yaml"
    file.write_text(text)
    given: dict[str, Any] = {"model": "ctr", "store": "/suite", "layouts": "/suite/layouts.json"}
    config = read_suite_config(file, **given)
    own = config.models["ctr"]
    assert own.cube is not None
    assert (own.store, own.keep, own.cube.layouts, own.cube.name) == ("/suite", 3, "/suite/layouts.json", "ctr")
    assert own.cube.row_cache == 1000000
    assert list(config.models) == ["next", "ctr"]
    file.write_text("limits: {queue: 3}")
    assert list(read_suite_config(file, **given).models) == ["ctr"]
    file.write_text("models:\n  ctr:\n    store: x\n    cube: {servers: [[a]]}\ndefault: mine")
    with pytest.raises(JobError) as failure:
        read_suite_config(file, **given)
    wrong = [(one.key, one.line) for one in failure.value.errors]
    assert wrong == [("models.ctr.store", 3), ("models.ctr.cube.servers", 4), ("default", 5)]


def test_answers_with_zeros_are_not_to_be_kept(tmp_path: Path) -> None:
    text = "models: {ctr: {store: x, request_cache: 1000, cube: {servers: y, failure: zeros}}}"
    with pytest.raises(JobError, match=r"models\.ctr\.request_cache.*use cube\.failure: error"):
        read(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "serve.yaml").write_text(WHOLE)
    with pytest.raises(JobError, match=r"no such file; did you mean .*serve\.yaml\?"):
        read_serve_config(tmp_path / "serv.yaml")


def test_a_cube_needs_a_token(tmp_path: Path) -> None:
    config = read(tmp_path, f"models: {{ctr: {{store: {tmp_path}, cube: {{servers: [['unix:/none']]}}}}}}")
    with pytest.raises(JobError, match=r"models\.ctr\.cube: a cube needs a token; set CLICKLINE_TOKEN"):
        configured_predictor(config)


def test_a_predictor_is_made_of_it(tmp_path: Path) -> None:
    text = f"models: {{a: {{store: {tmp_path}/a}}, b: {{store: {tmp_path}/b}}}}\n"
    text += "splits: {m: {variants: [{model: a}]}}\nshadows: {a: {model: b}}"
    with configured_predictor(read(tmp_path, text)) as predictor:
        assert predictor.names == ["m", "a", "b"]
        assert not predictor.ready()
        status = predictor.status()
        assert (status["default"], status["shadows"]) == (None, {"a": {"model": "b", "share": 1.0}})
