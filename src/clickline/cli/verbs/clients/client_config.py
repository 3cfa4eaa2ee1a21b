"""`clickline client-config`: a directory with all that a client of a running predictor needs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clickline.cli.shared.client_options import ModelName, client_of, model_metadata, refusals_as_errors
from clickline.cli.shared.deployed_option import Deployed, deployed_suite
from clickline.cli.shared.output import AsJson, print_json, say

if TYPE_CHECKING:
    from clickline.net.predictor_documents import ModelMetadata

_PREDICT = '''\
"""Asks the predictor about the rows of sample.json: python predict.py"""

import json
from pathlib import Path

import yaml

from clickline import Client

here = Path(__file__).parent
config = yaml.safe_load((here / "client.yaml").read_text(encoding="utf-8"))
rows = json.loads((here / "sample.json").read_text(encoding="utf-8"))["instances"]
with Client(config["url"], timeout=config["timeout"], retries=config["retries"]) as client:
    print(client.predict(rows, model=config["model"]))
'''
_PREDICTORS = """\
# For tools of ElasticCTR that read addresses from here. Its form is answered over HTTP with JSON:
# POST http://{authority}/ElasticCTRPredictionService/inference
default_variant_conf {{
  tag: "default"
  connection_conf {{
    connect_timeout_ms: 2000
    rpc_timeout_ms: 20000
    connect_retry_count: 2
    max_connection_per_host: 100
    hedge_request_timeout_ms: -1
    hedge_fetch_retry_count: 2
    connection_type: "pooled"
  }}
  naming_conf {{
    cluster_filter_strategy: "Default"
    load_balance_strategy: "rr"
  }}
  rpc_parameter {{
    compress_type: 0
    protocol: "http"
  }}
}}
predictors {{
  name: "ctr_prediction_service"
  service_name: "ElasticCTRPredictionService"
  endpoint_router: "WeightedRandomRender"
  weighted_random_render_conf {{
    variant_weight_list: "100"
  }}
  variants {{
    tag: "default"
    naming_conf {{
      cluster: "list://{authority}"
    }}
  }}
}}
"""


def client_config(
    state: Annotated[
        Path, typer.Argument(metavar="[STATE]", help="The state directory of a running `clickline up`.")
    ] = Path("runs"),
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="A predictor's address, instead of STATE.", show_default=False),
    ] = None,
    deployed: Deployed = None,
    model: ModelName = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIRECTORY", help="Where to.")] = Path("client"),
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="A log whose first row is the sample; else it is made up."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a client's configuration: address, model and columns, a sample row, and a program that asks about it.

    client.yaml, sample.json, predict.py; for ElasticCTR's clients predictors.prototxt and slot.conf.

    Example: clickline client-config runs --out client
    """
    from clickline.client.http_requests import default_model

    token = None
    if deployed is not None:
        with deployed_suite(deployed) as suite:
            url = url or suite.predictor_url()
            # Of the environment, if it is there; else from the suite's Secret, and written nowhere.
            token = os.environ.get("CLICKLINE_TOKEN") or suite.token()
    elif url is None:
        url, served = _predictor_of(state)
        model = model or served
    with client_of(url, timeout=10.0, token=token) as client, refusals_as_errors():
        name = model or default_model(client.status())
        metadata = model_metadata(client, name)
        rows = _sample(metadata, file)
        version = client.predict(rows, model=name).version
        files = _files(str(client.address), client.address.authority, name, version, metadata, rows)
    out.mkdir(parents=True, exist_ok=True)
    for file_name, text in files.items():
        (out / file_name).write_text(text, encoding="utf-8")
    if as_json:
        print_json({"directory": str(out), "files": list(files), "url": url, "model": name, "version": version})
        return
    for file_name in files:
        say(str(out / file_name))
    say(f"next: python {out / 'predict.py'}")


def _predictor_of(state: Path) -> tuple[str, str | None]:
    """Address and model of the suite in a state directory."""
    from clickline.errors import PeerError
    from clickline.launch.suite_state import read_suite

    suite = read_suite(state)
    if suite is None:
        raise PeerError(f"nothing runs in {state}: start `clickline up`, or name --url")
    address = suite.get("http")
    if not address:
        raise PeerError(f"the suite in {state} has no predictor yet; wait until `clickline up` serves, or name --url")
    return address, suite.get("model")


def _sample(metadata: ModelMetadata, file: str | None) -> list[dict[str, Any]]:
    from clickline.client.made_up_rows import columns, sample_rows
    from clickline.client.request_rows import read_file
    from clickline.errors import DataError

    if file is None:
        return sample_rows(metadata, 1)
    first = next(read_file(file, standard_input=sys.stdin, columns=lambda: columns(metadata)), None)
    if first is None:
        raise DataError(f"there are no rows in {file}")
    return [first]


def _files(
    url: str, authority: str, model: str, version: int, metadata: ModelMetadata, rows: list[dict[str, Any]]
) -> dict[str, str]:
    """Their texts by name."""
    import yaml

    columns = [
        {"name": column["name"], "type": column["datatype"], "several": len(column["shape"]) > 1}
        for column in metadata["inputs"]
    ]
    settings = {"url": url, "model": model, "timeout": 5.0, "retries": 2, "columns": columns}
    head = f"# How to ask; made by clickline client-config when version {version} was in service.\n"
    slots = [column["name"] for column in metadata["inputs"] if column["datatype"] == "BYTES"]
    return {
        "client.yaml": head + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        "sample.json": json.dumps({"instances": rows}, indent=2, ensure_ascii=False) + "\n",
        "predict.py": _PREDICT,
        "predictors.prototxt": _PREDICTORS.format(authority=authority),
        "slot.conf": "".join(f"{name}\n" for name in slots),
    }
