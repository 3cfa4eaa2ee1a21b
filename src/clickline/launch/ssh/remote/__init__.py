"""Scripts that are sent to a host and run there by whatever Python it has, with nothing but its standard library."""

from __future__ import annotations

from importlib.resources import files


def script(name: str) -> str:
    """The text of a script of this folder."""
    return files(__name__).joinpath(f"{name}.py").read_text(encoding="utf-8")
