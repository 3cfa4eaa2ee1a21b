"""job.sh of a submission: written for a shell, and read here without one.

What is read are assignments of plain values and one command: `clickline submit …` of a generated folder, or
`paddlecloud job … train …` of one that was written by hand.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from clickline.compat.paddlerec.submission.submit_options import SubmitOptions
from clickline.errors import JobError

NAME = "job.sh"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::-([^}]*))?\}|([A-Za-z_]\w*))", re.ASCII)
_LIMIT = 1 << 20
_HEAD = """\
#!/bin/sh
# Submits what is in this folder. Every file here can be edited; then: sh job.sh
# What counts: job.sh, config.ini, the hooks, and the file that start_cmd names. They were made from backend.yaml.
# `sh job.sh --dry-run` checks it and starts nothing, `sh job.sh --wait` waits for the end.
"""
_COMMAND = 'cd "$(dirname "$0")" || exit 1\nexec "$clickline" -m clickline submit .'
_SHOWN = (
    ("on", "on"),
    ("job_name", "job-name"),
    ("group_name", "group-name"),
    ("start_cmd", "start-cmd"),
    ("nodes", "nodes"),
    ("trainers", "trainers"),
    ("servers", "servers"),
    ("gpu_cards", "gpu-cards"),
    ("trainer_cores", "trainer-cores"),
    ("server_cores", "server-cores"),
    ("hosts", "hosts"),
    ("python", "python"),
    ("mpirun", "mpirun"),
    ("image", "image"),
    ("model_directory", "model-directory"),
)
"""Variables of the script, and the options that they are for."""


@dataclass(frozen=True, slots=True)
class JobScript:
    """What a job.sh says."""

    options: SubmitOptions
    generated: bool
    """Whether it submits its own folder by Clickline."""


def job_script_text(options: SubmitOptions) -> str:
    """The file."""
    lines, words = [f"clickline={shlex.quote(sys.executable)}"], []
    for name, option in _SHOWN:
        value = getattr(options, name)
        if value or name in ("job_name", "group_name", "start_cmd"):
            lines.append(f"{name}={_quoted(str(value))}")
            words.append(f'--{option} "${name}"')
    words += [f"-o {shlex.quote(value)}" for value in options.paddle_overrides]
    words += [f"--set {shlex.quote(value)}" for value in options.overrides]
    command = " \\\n    ".join([_COMMAND, *words, '"$@"'])
    return _HEAD + "\n" + "\n".join(lines) + f"\n\n{command}\n"


def read_job_script(path: Path) -> JobScript:
    """Raises JobError that names what is missing."""
    try:
        if path.stat().st_size > _LIMIT:
            raise JobError(f"{path}: larger than {_LIMIT} bytes; not a script that submits a job")
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise JobError(f"{path}: cannot be read: {error}; expected a folder with job.sh in it") from None
    variables: dict[str, str] = {}
    # As far as plain assignments and one command go, a script can be understood without running it. Whatever else it
    # does is passed over, and a value that the shell would have to compute is refused where it is needed.
    for number, line in _commands(text):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue  # a part of something larger, such as a here-document
        if words[:1] in (["export"], ["readonly"]):
            words.pop(0)
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            variables[match[1]] = _substituted(match[2], variables)
            words.pop(0)
        words = [_substituted(word, variables) for word in words]
        for mark, generated in ((["clickline", "submit"], True), (["paddlecloud", "job"], False)):
            if _contains(words, mark):
                source = f"{path}, line {number}"
                given = _options(words)
                if not generated and "train" not in words:
                    continue
                computed = [name for name, values in given.items() if any("$" in v or "`" in v for v in values)]
                if not generated and (unknown := {"start-cmd", "files"} & set(computed)):
                    message = f"--{min(unknown)} is computed by the shell; expected a plain value"
                    raise JobError(f"{source}: {message}")
                for name in computed:  # a shell that runs the script knows them, and gives them as options
                    del given[name]
                return JobScript(SubmitOptions.of_words(given, source=source), generated)
    raise JobError(f"{path}: no command in it submits a job; expected `paddlecloud job … train --start-cmd …`")


def _commands(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; those that a backslash continues are one."""
    pending, began = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        began = began or number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        yield began, pending + line
        pending, began = "", 0
    if pending:
        yield began, pending


def _options(words: list[str]) -> dict[str, list[str]]:
    """Options of a command by their names, each with the words after it; one that is repeated has them all."""
    given: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word == "-o" or word.startswith("--"):
            name, equals, value = word.lstrip("-").partition("=")
            given.setdefault(name, []).extend([value] if equals else [])
        elif name and word != "$@":
            given[name].append(word)
            if name in ("o", "set"):
                name = ""
    return given


def _contains(words: list[str], mark: list[str]) -> bool:
    names = [word.rpartition("/")[2] for word in words]
    return any(names[at : at + len(mark)] == mark for at in range(len(names)))


def _substituted(text: str, variables: dict[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return variables.get(match[1] or match[3], match[0] if match[2] is None else match[2])

    return _VARIABLE.sub(value, text)


def _quoted(text: str) -> str:
    """As a shell takes it between double quotes, which people expect to find in such a file."""
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'
