"""The OpenAPI description as a page for people. It loads nothing from elsewhere and runs nothing."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from typing import Any

from clickline.serve.openapi.json_schemas import Json
from clickline.serve.openapi.openapi import description
from clickline.serve.protocols.prediction_protocol import PredictionProtocol


@cache
def html_page(protocols: tuple[PredictionProtocol, ...]) -> bytes:
    """The document for people."""
    document = description(protocols)
    parts = []
    for path, operations in document["paths"].items():
        for method in ("get", "post"):
            if method in operations:
                parts.append(_html_operation(path, method, operations[method]))
    shapes = "".join(
        f'<details id="{escape(name)}"><summary>{escape(name)}</summary><pre>{_json(schema)}</pre></details>'
        for name, schema in document["components"]["schemas"].items()
    )
    info = document["info"]
    return _PAGE.format(
        title=escape(info["title"]),
        version=escape(info["version"]),
        text=escape(info["description"]),
        operations="".join(parts),
        shapes=shapes,
    ).encode()


def _html_operation(path: str, method: str, operation: Json) -> str:
    body = ""
    if "requestBody" in operation:
        asked = operation["requestBody"]["content"]["application/json"]
        body = f"<h4>Body: {_link(asked['schema'])}</h4><pre>{_json(asked['example'])}</pre>"
    answers = "".join(
        f"<tr><td>{status}</td><td>{escape(answer['description'])}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    [content] = list(operation["responses"]["200"]["content"].values())[:1]
    answer = f"<h4>Answer: {_link(content['schema'])}</h4>" if "schema" in content else ""
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f"{escape(operation['summary'])}</summary>"
        f"{body}{answer}<table>{answers}</table></details>"
    )


def _link(schema: Json) -> str:
    name = escape(schema["$ref"].rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>'


def _json(value: Any) -> str:
    return escape(json.dumps(value, indent=2, ensure_ascii=False))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }}
details {{ border: 1px solid #8884; border-radius: 6px; margin: .4rem 0; padding: .4rem .8rem; }}
summary {{ cursor: pointer; }} pre {{ overflow: auto; background: #8881; padding: .6rem; }}
td {{ vertical-align: top; padding: .1rem .8rem .1rem 0; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #ddd; }} a {{ color: #8bf; }} }}
</style></head><body><h1>{title} <small>{version}</small></h1><p>{text}
For programs: <a href="/openapi.json">/openapi.json</a>.</p>
<h2>Paths</h2>{operations}<h2>Shapes</h2>{shapes}</body></html>
"""
