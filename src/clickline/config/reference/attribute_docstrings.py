"""What the keys of a section mean: the text below each attribute, read from the source.

pydantic can do this while it makes the class, and then does it at every start of every process: a third of what reading
a job takes. Only pages and schemas need it, so it is done when they are made.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise

from pydantic import BaseModel


def attribute_docstrings(section: type[BaseModel]) -> dict[str, str]:
    """The text of each field that has one, by the field's name; those of base classes are included."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__):
        if base is not BaseModel and isinstance(base, type) and issubclass(base, BaseModel):
            found |= _own(base)
    return {name: text for name, text in found.items() if name in section.model_fields}


def _own(section: type[BaseModel]) -> dict[str, str]:
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for definition in ast.parse(textwrap.dedent(inspect.getsource(section))).body
        if isinstance(definition, ast.ClassDef)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
