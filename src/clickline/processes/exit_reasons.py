"""How a process ended, in words: exit codes by their meaning, signals by name, the kernel's out-of-memory killer."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MEANINGS = {
    0: "Done.",
    1: "Something failed that is none of the below.",
    2: "Wrong usage: an unknown verb or option, or one is missing.",
    3: "The job is wrong.",
    4: "The data cannot be read, or too much of it is malformed.",
    5: "The model cannot be built, or does not fit the job.",
    6: "A checkpoint is missing, damaged, of another job, or cannot be written.",
    7: "Another process of the job cannot be reached, refuses us, or has failed.",
    8: "A published version is missing, damaged, does not fit its parent, or must not be published.",
    9: "Another process has taken this one's place.",
    130: "Interrupted, by Ctrl+C as a rule.",
}
"""Clickline's exit codes."""
HOPELESS = {2, 3, 4, 5, 6, 8, 9}
"""Codes that another start would only repeat: what is wrong stays wrong."""
VICTIM = 7
"""The code of a process that failed because another did."""
REPLACED = 9
"""The code of a process whose place another has: to start it again would only make two of them."""
_CRASHES = {
    signal.SIGSEGV: "a crash in native code: memory that is not there",
    signal.SIGBUS: "a crash in native code: memory that could not be had, such as a mapped file that shrank",
    signal.SIGFPE: "a crash in native code: an impossible division",
    signal.SIGILL: "a crash in native code: an instruction that this processor does not have",
    signal.SIGABRT: "native code gave up; its last words are in the log",
}


@dataclass(frozen=True, slots=True)
class Ending:
    """One death of one process."""

    name: str
    code: int
    """As of subprocess: negative for a signal."""
    reason: str
    time: float
    """Seconds since 1970."""
    tail: list[str] = field(default_factory=list)
    """Its last log lines."""
    pid: int = 0
    """Which process it was; another of the same name may be there by now."""


def in_words(code: int, *, out_of_memory: bool = False) -> str:
    """What a return code means. Negative is a signal, as in subprocess; above 128, a shell's word for one."""
    if code < 0:
        return _signal_in_words(-code, out_of_memory=out_of_memory)
    if code in MEANINGS:
        meaning = MEANINGS[code].rstrip(".")
        return f"exit code {code}: {meaning[0].lower()}{meaning[1:]}"
    if code > 128 and (name := _signal_name(code - 128)):
        return f"exit code {code}, which says {_signal_in_words(code - 128, name=name, out_of_memory=out_of_memory)}"
    return f"exit code {code}"


def _signal_in_words(number: int, *, name: str = "", out_of_memory: bool = False) -> str:
    text = f"killed by {name or _signal_name(number) or 'signal'} ({number})"
    if number == signal.SIGKILL:
        return text + (": the machine or its container was out of memory" if out_of_memory else "")
    why = _CRASHES.get(signal.Signals(number)) if _signal_name(number) else None
    return f"{text}, {why}" if why else text


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def failure_text(first: Ending, others: Sequence[Ending], *, restarts: int, log: Path | None) -> str:
    """The message of a failure: how its cause ended, after how many restarts, other deaths, its last log lines."""
    often = f", after it had been started again {restarts} time{'s' * (restarts != 1)}" if restarts else ""
    text = [f"{first.name} failed, {first.reason}{often}"]
    if others:
        text += ["other deaths, times in UTC:"]
        text += [f"  {_clock(ending.time)} {ending.name}, {ending.reason}" for ending in others]
    if first.tail:
        text += [f"last lines of {log}:", *(f"  {line}" for line in first.tail)]
    elif log is not None:
        text += [f"{log} holds nothing from it"]
    return "\n".join(text)


def _clock(moment: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(moment))


class MemoryKills:
    """The kernel's counts of processes that it killed for want of memory: one that rose just now was for ours.

    The machine's count may rise for somebody else's process while one of ours is killed by hand; that is the whole
    error. A process that held much memory takes a while to die, hence `RECENT`.
    """

    RECENT = 10.0
    LOOK_EVERY = 1.0

    def __init__(self, *, files: list[Path] | None = None) -> None:
        self._files = _counters() if files is None else files
        self._counts = self._read()
        self._looked = time.monotonic()
        self._risen = -math.inf

    def look(self) -> None:
        """Note whether there were new ones. Cheap enough to be called all the time."""
        if time.monotonic() - self._looked >= self.LOOK_EVERY:
            self._look()

    def recent(self) -> bool:
        """Whether there was one in the last seconds."""
        self._look()
        return time.monotonic() - self._risen <= self.RECENT

    def _look(self) -> None:
        before, self._counts = self._counts, self._read()
        self._looked = time.monotonic()
        if any(now > then for now, then in zip(self._counts, before, strict=True)):
            self._risen = self._looked

    def _read(self) -> list[int]:
        return [_field(file, "oom_kill") for file in self._files]


def _counters() -> list[Path]:
    files = [Path("/proc/vmstat")]
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return files
    for line in groups:
        number, _, path = line.split(":", 2)
        if number == "0":  # the unified hierarchy
            files.append(Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events")
    return files


def _field(file: Path, name: str) -> int:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))
