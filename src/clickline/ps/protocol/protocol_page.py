"""The page about the operations, made from their types, so that it cannot say anything else.

    python -m clickline.ps.protocol.protocol_page docs/reference

writes protocol.md.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import msgspec

from clickline.ps.protocol import (
    file_messages,
    member_messages,
    model_messages,
    pserver_messages,
    refusals,
    work_messages,
)
from clickline.ps.protocol.refusals import ErrorCode

Message = type[msgspec.Struct]
_HEAD = """\
# Operations of parameter-server training

Made from the types by `python -m clickline.ps.protocol.protocol_page docs/reference`; edit the types, not this file.

Trainers and parameter servers send requests to the coordinator; trainers and the coordinator send requests to the
parameter servers. [wire.md](wire.md) describes the connection, and the frames PULL and PUSH in which rows travel. All
other requests are CALL frames with one of the operations below. The body of a request and of a reply is

    u32 length of the JSON ‖ JSON {"facts": {…}, "arrays": [[name, dtype, shape], …]} ‖ arrays, each aligned to 8 bytes

where `facts` has the fields below, and arrays lie as in memory, little-endian and in C order. An array in 16 bits has
the dtype `fp16` or `bf16` and a fourth entry, the power of two by which its numbers were multiplied. A field with its
default value may be left out; one that is unknown is ignored.
"""
_COORDINATOR = """\
## Requests to the coordinator

The client number of the connection says who asks. A request may be held back for up to two seconds (a heartbeat for
`cluster.heartbeat`); the member asks again after that.
"""
_PSERVER = """\
## Requests to a parameter server

A request that is numbered by the wire is executed once, however often it is sent; one of the coordinator has an
`order` instead. Requests wait until the server has loaded a model, except for `load`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [
            _HEAD,
            *_codes(),
            _COORDINATOR,
            *_common(member_messages.MemberRequest, member_messages.MemberReply, member_messages),
            *_operations(member_messages.REQUESTS, member_messages),
            *_operations(model_messages.REQUESTS, model_messages),
            *_operations(work_messages.REQUESTS, work_messages),
            *_operations(file_messages.TO_COORDINATOR, file_messages),
            _PSERVER,
            *_common(pserver_messages.ServerRequest, pserver_messages.ServerReply, pserver_messages),
            *_operations(pserver_messages.REQUESTS, pserver_messages),
            *_operations(file_messages.TO_SERVER, file_messages),
            "## Objects within messages\n",
            *_objects(),
            "",
        ]
    )


def _codes() -> Iterator[str]:
    yield "## Refusals\n"
    yield "A reply whose request was not carried out has `refusal`: a `code` for programs, a `message` for people.\n"
    yield "| code | meaning |\n|---|---|"
    texts = _texts(refusals)[ErrorCode.__name__]
    yield from (f"| `{code.value}` | {texts[code.name]} |" for code in ErrorCode)
    yield ""


def _common(request: Message, reply: Message, module: ModuleType) -> Iterator[str]:
    texts = _texts(module)
    yield "Fields of every request and of every reply:\n"
    yield "| | field | type | default | meaning |\n|---|---|---|---|---|"
    for kind, message in (("request", request), ("reply", reply)):
        yield from (f"| {kind} {row}" for row in _rows(message, texts))
    yield ""


def _operations(requests: tuple[type, ...], module: ModuleType) -> Iterator[str]:
    texts = _texts(module)
    for request in requests:
        yield f"### {request.operation}\n"  # type: ignore[attr-defined]
        yield _text(request) + "\n"
        yield f"Reply: {_text(request.reply)}\n"  # type: ignore[attr-defined]
        rows = [
            f"| {kind} {row}"
            for kind, message in (("request", request), ("reply", request.reply))  # type: ignore[attr-defined]
            for row in _rows(message, texts, without=message.__mro__[1])
        ]
        if rows:
            yield "| | field | type | default | meaning |\n|---|---|---|---|---|"
            yield from rows
            yield ""


def _objects() -> Iterator[str]:
    texts = _texts(member_messages) | _texts(work_messages)
    for message in (
        member_messages.ServerList,
        member_messages.ServerLocation,
        member_messages.RunDirectory,
        member_messages.NodeFiles,
        member_messages.NameHolder,
        work_messages.WorkItem,
        work_messages.Round,
    ):
        array = " Written as a JSON array of its fields." if message.__struct_config__.array_like else ""
        yield f"### {message.__name__}\n"
        yield f"{_text(message)}{array}\n"
        yield "| field | type | default | meaning |\n|---|---|---|---|"
        yield from _rows(message, texts)
        yield ""
    yield "### Action\n"
    yield "What a trainer should do next.\n"
    yield "| value | meaning |\n|---|---|"
    meanings = texts["Action"]
    yield from (f"| `{action.value}` | {meanings[action.name]} |" for action in work_messages.Action)


def _rows(message: Message, texts: dict[str, dict[str, str]], *, without: type | None = None) -> Iterator[str]:
    """A row of a table for each field, except for those that `without` has as well."""
    inherited = set(getattr(without, "__struct_fields__", ()))
    meanings = {name: text for kind in reversed(message.__mro__) for name, text in texts.get(kind.__name__, {}).items()}
    for field in msgspec.structs.fields(message):
        if field.name in inherited:
            continue
        kind = _type(message, field.name)
        yield f"| `{field.name}` | {kind} | {_default(field)} | {meanings.get(field.name, '')} |"


def _type(message: Message, name: str) -> str:
    """The annotation as it is written."""
    annotation = next(kind.__annotations__[name] for kind in message.__mro__ if name in kind.__annotations__)
    return "`" + str(annotation).replace("|", "\\|") + "`"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
    return f"`{msgspec.json.encode(value).decode()}`"


def _text(message: Message) -> str:
    return " ".join((inspect.getdoc(message) or "").split())


def _texts(module: ModuleType) -> dict[str, dict[str, str]]:
    """By class and name, the string literal that stands below an attribute: Python itself forgets it."""
    texts: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        if not isinstance(node, ast.ClassDef):
            continue
        own = texts.setdefault(node.name, {})
        for statement, following in zip(node.body, node.body[1:], strict=False):
            target = _target(statement)
            if target and isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                own[target] = " ".join(str(following.value.value).split())
    return texts


def _target(statement: ast.stmt) -> str:
    """The name that a statement gives a value or a type; empty if it does neither."""
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return statement.target.id
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return statement.targets[0].id
    return ""


def main() -> None:
    (Path(sys.argv[1]) / "protocol.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
