"""The command that a submission starts on its nodes, as far as it is understood: it names the config.yaml, or job.

It is read and not executed: what runs on a node are the processes of the job that the file stands for, and checks come
before anything is started.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from clickline.errors import JobError

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.ASCII | re.DOTALL)
_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*", re.ASCII)
_RUN = ("paddlerec.run", "clickline.run")
_EXPECTED = (
    "expected `python -m paddlerec.run -m ./config.yaml`, or `clickline train ./job.yaml`; "
    "other commands belong into before_hook.sh or end_hook.sh"
)


@dataclass(frozen=True, slots=True)
class NodeCommand:
    """What it says."""

    config: str
    """The file, as it is named there."""
    paddle_overrides: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def on_node(self) -> str:
        """The same command for a node that has Clickline and no PaddleRec."""
        words = ["python3", "-m", "clickline.run", "-m", self.config]
        words += [word for each in self.paddle_overrides for word in ("-o", each)]
        words += [word for each in self.overrides for word in ("--set", each)]
        return shlex.join(words)


def read_start_command(text: str) -> NodeCommand:
    """Raises JobError if it is another command."""
    try:
        words = _words(text)
    except ValueError as error:
        raise JobError(f"start_cmd: {text!r} cannot be read ({error}); {_EXPECTED}") from None
    environment = {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    verb, arguments = _verb(words)
    config, paddle, own = _arguments(arguments, positional=verb == "train")
    if not verb or not config:
        raise JobError(f"start_cmd: {text!r} is not understood; {_EXPECTED}")
    return NodeCommand(config, paddle, own, environment)


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    if any(word and not word.strip("();<>|&") for word in words):
        raise ValueError("more than one command")
    return words


def _verb(words: Sequence[str]) -> tuple[str, list[str]]:
    """`run` or `train`, and its arguments; nothing if it is neither."""
    left = list(words)
    if left and _PYTHON.fullmatch(left[0]):
        left = [word for word in left[1:2] if word != "-u"] + left[2:]
        if left[:1] != ["-m"]:
            return "", []
        if left[1:2] and left[1] in _RUN:
            return "run", left[2:]
        left = left[1:]
    if left and left[0].rpartition("/")[2] == "clickline" and left[1:2] in (["run"], ["train"]):
        return left[1], left[2:]
    return "", []


def _arguments(words: Sequence[str], *, positional: bool) -> tuple[str, list[str], list[str]]:
    """The file, values of config.yaml and values of the job. An option that is not known makes the file empty."""
    config, values = "", {"-o": list[str](), "--set": list[str]()}
    left = list(words)
    while left:
        word = left.pop(0)
        if word in ("-m", "--model") and left and not positional:
            config = left.pop(0)
        elif word in ("-b", "--backend") and left:
            left.pop(0)  # the node is where it leads to
        elif word in values and left:
            values[word].append(left.pop(0))
        elif not word.startswith("-") and "=" in word and not positional:
            values["-o"].append(word)
        elif not word.startswith("-") and positional and not config:
            config = word
        else:
            return "", [], []
    return config, values["-o"], values["--set"]
