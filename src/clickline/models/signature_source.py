"""The source of `zoo_signatures.py`, made from the classes of the zoo.

    python -m clickline.models.signature_source

writes that file; `make reference` does it too, and a test holds that the file is current.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import inspect
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pydantic

from clickline.data import embeddings
from clickline.data.embeddings import Fields
from clickline.models import interactions, layers, model_signature, parameter_types
from clickline.models.base import Model
from clickline.models.registry import model_class, model_names

FILE = Path(__file__).with_name("zoo_signatures.py")
_HEAD = '''\
"""The models of the zoo without their networks: what each takes, and which tables it has.

Made from the classes by `python -m clickline.models.signature_source`; edit the classes, not this file. Jobs are
checked against it, so that `clickline validate` need not wait for PyTorch.
"""

from __future__ import annotations

'''
_KNOWN = ((collections.abc, typing), (pydantic,), (embeddings, model_signature, parameter_types))
"""Where the types of parameters may come from, in the order of imports; none of these modules loads PyTorch."""
_PROBE = Fields(("first", "second"), ("sum", "sum"))


def source() -> str:
    """The whole file."""
    classes = {name: model_class(name) for name in model_names()}
    body = "".join(f"\n\n{_signature(cls)}" for cls in classes.values())
    table = "".join(f'    "{name}": {cls.__name__}Signature,\n' for name, cls in classes.items())
    body += f"\n\nSIGNATURES: dict[str, type[ModelSignature]] = {{\n{table}}}\n"
    return _HEAD + _imports(body) + body


def tables_of(cls: type[Model]) -> tuple[str, ...] | None:
    """Kinds of the model's tables; None if its `__init__` might refuse a job that has a slot.

    It might if there is a `raise` in its file, or in those of the blocks that models are made of.
    """
    own = sys.modules[cls.__module__]
    if any(_raises(module) for module in (own, layers, interactions)):
        return None
    return tuple(dict.fromkeys(str(embedding.kind) for embedding in cls(_PROBE).embeddings.values()))


def slot_parameters_of(cls: type[Model]) -> tuple[str, ...]:
    """Parameters that take text of any kind: names of slots, of which the job might have none."""
    hints = typing.get_type_hints(cls.__init__, include_extras=True)
    return tuple(p.name for p in _parameters(cls) if p.name != "fields" and _takes_text(hints[p.name]))


def _signature(cls: type[Model]) -> str:
    tables = tables_of(cls)
    facts = {
        "several_labels": cls.several_labels,
        "tables": tables,
        "slot_parameters": slot_parameters_of(cls) if tables else (),
    }
    given = [f"    {name} = {_literal(value)}\n" for name, value in facts.items() if value]
    parameters = [f"        {text},\n" for text in ("self", *_parameter_texts(cls))]
    lines = [f"class {cls.__name__}Signature(ModelSignature):\n", *given, "\n" if given else "", "    def __init__(\n"]
    return "".join([*lines, *parameters, "    ) -> None: ...\n"])


def _parameters(cls: type[Model]) -> list[inspect.Parameter]:
    return list(inspect.signature(cls).parameters.values())


def _parameter_texts(cls: type[Model]) -> Iterator[str]:
    by_name = False
    for p in _parameters(cls):
        if p.kind is p.KEYWORD_ONLY and not by_name:
            yield "*"
            by_name = True
        # Annotations are text as long as a module begins with `from __future__ import annotations`.
        annotation = str(p.annotation).replace("'", '"')
        yield f"{p.name}: {annotation}" + ("" if p.default is p.empty else f" = {_literal(p.default)}")


def _literal(value: object) -> str:
    """As the formatter writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    return repr(value)


def _imports(body: str) -> str:
    """Of every name that the body uses and neither defines nor has anyway."""
    nodes = list(ast.walk(ast.parse(body)))
    names = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    names -= {node.name for node in nodes if isinstance(node, ast.ClassDef)} | set(dir(builtins))
    groups = []
    for modules in _KNOWN:
        lines = []
        for module in modules:
            if found := sorted(name for name in names if hasattr(module, name)):
                lines.append(f"from {module.__name__} import {', '.join(found)}\n")
            names.difference_update(found)
        groups.append("".join(lines))
    if names:
        unknown = ", ".join(sorted(names))
        raise SystemExit(f"define what models annotate their parameters with in {parameter_types.__file__}: {unknown}")
    return "\n".join(group for group in groups if group)


def _raises(module: ModuleType) -> bool:
    return any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(inspect.getsource(module))))


def _takes_text(hint: object) -> bool:
    return hint is str or any(_takes_text(part) for part in typing.get_args(hint))


if __name__ == "__main__":
    FILE.write_text(source(), encoding="utf-8")
