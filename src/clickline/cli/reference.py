"""docs/reference/cli.md, made from the verbs themselves, and the references of serve.yaml and transfer.yaml.

python -m clickline.cli.reference docs/reference
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from clickline.cli.all_verbs import app
from clickline.cli.application import EXIT_CODES
from clickline.cli.settings_reference import SERVE, TRANSFER, VALUES
from clickline.processes.exit_reasons import MEANINGS

_HEAD = """\
# The command line

Made from the verbs by `python -m clickline.cli.reference docs/reference`; edit the verbs, not this file.

Results go to stdout; errors, notes and progress to stderr. With `--json`, stdout holds one JSON value, and an error
becomes `{"error": {"type": …, "message": …, "exit_code": …}}` there, for a wrong job with `errors`, a list of
`{"key", "message", "line", "column", "override"}`. `clickline --install-completion` sets up completion in your shell,
`clickline --version` prints the version. `python -m clickline` is the same as `clickline`.

## Exit codes

| code | name | meaning |
|---|---|---|
"""


def page() -> str:
    """The reference as Markdown."""
    codes = "".join(f"| {code} | {name} | {MEANINGS[code]} |\n" for code, name in EXIT_CODES.items())
    return _HEAD + codes + "".join(_verbs(typer.main.get_command(app), "clickline"))


def write(directory: Path) -> list[Path]:
    """Write the pages; gives back their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "cli.md"
    file.write_text(page(), encoding="utf-8")
    return [file, *SERVE.write(directory), *TRANSFER.write(directory), *VALUES.write(directory)]


def _verbs(group: Any, prefix: str) -> Iterator[str]:
    for name, verb in group.commands.items():
        if verb.hidden:
            continue
        called = f"{prefix} {name}"
        yield f"\n## {called}\n\n{inspect.cleandoc(verb.help or '')}\n"
        rows = [_row(parameter) for parameter in verb.params if parameter.name != "help"]
        if rows:
            yield "\n| argument or option | meaning |\n|---|---|\n" + "".join(rows)
        if hasattr(verb, "commands"):
            yield from _verbs(verb, called)


def _row(parameter: Any) -> str:
    is_option = parameter.param_type_name == "option"
    name = ", ".join(parameter.opts) if is_option else parameter.metavar or parameter.name.upper()
    value = f" {parameter.metavar}" if is_option and parameter.metavar else ""
    return f"| `{name}{value}` | {(parameter.help or '').replace('|', chr(92) + '|')} |\n"


if __name__ == "__main__":
    for file in write(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference")):
        print(file)
