"""Messages between a launcher and the runner of each host: one JSON object a line, over a pipe.

The launcher sends the plan, then a sign of life every few seconds, until it wants the processes to stop. The end of the
pipe, and a long silence, mean the same as that: a launcher that is gone must not leave processes behind, and neither
must a connection that broke without a word.
"""

from __future__ import annotations

import msgspec

from clickline.files.typed_json import decode_json

SIGN_OF_LIFE_EVERY = 5.0
"""Seconds."""
LINE_LIMIT = 1 << 20
"""Bytes of a line; a longer one is not a message."""


class PlannedProcess(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One process of a job: `clickline ROLE job.yaml`, told by its environment who it is."""

    role: str
    rank: int
    verb: str = ""
    """In place of ROLE in the command, where it is another."""
    arguments: list[str] = []
    """Of the command line, after the job file."""
    environment: dict[str, str] = {}
    spare: bool = False
    """Whether the job can do without it."""


class NodeFetch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Files that a node gets before its processes start."""

    url: str
    """A directory or file at a URL, which is copied; or a path that the node has, to which a link leads."""
    directory: str
    """Where they come to be, below the directory that the processes run in."""
    share: bool = False
    """Whether the node gets its share of the files only: contiguous, as `data.placement: split` has it."""


class NodeSteps(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is done on a node before the processes of a job start anywhere, and after all of them have ended well."""

    before: str = ""
    """A script, run first."""
    fetches: list[NodeFetch] = []
    after: str = ""
    """A script, run when everything has ended well."""
    epoch_links: str = ""
    """On the first host: a directory of links, by epoch from 0, to checkpoints, as PaddleRec saves them."""
    upload: str = ""
    """On the first host: a URL or path to which the run's directory is copied at last."""
    environment: dict[str, str] = {}
    """For scripts, and for the processes of the job."""
    storage: dict[str, str] = {}
    """Options of the file system of those URLs. They are secret: they go to no file, argument, log or process."""
    node: int = 0
    """Which of the nodes this is, and how many there are: they say which share it gets."""
    nodes: int = 1


class HostPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a runner is to run."""

    job: str
    """Identifies the job on this host: JOB and the time."""
    node: int
    """Which of the job's hosts this is, from 0."""
    directory: str
    """The job's directory on this host."""
    job_file: str
    """Relative to where the processes run."""
    in_place: bool = False
    """Whether they run where the runner was started, and not in the directory."""
    processes: list[PlannedProcess]
    workspace: str = ""
    """Directory that the processes run in; empty: the job's own."""
    steps: NodeSteps | None = None
    """What is done before and after."""
    awaits_start: bool = False
    """Whether processes start only when the launcher says that all hosts are prepared."""
    at_checkpoints: list[str] = []
    """On the first host: arguments of a `clickline` command that is run whenever there is a new checkpoint."""
    output: str = ""
    """On the first host: the run's directory, to which `output` in the job's directory leads."""
    environment: dict[str, str] = {}
    """For all of them; with the token, so this travels in no argument and in no file."""
    restarts: int = 0
    silence: float = 60.0
    """Seconds without a sign of life of the launcher after which everything is stopped."""
    grace: float = 5.0
    """Seconds that a process has to end when it is asked to: a coordinator writes a checkpoint in them."""


class SignOfLife(msgspec.Struct, frozen=True, tag="alive"):
    """The launcher is there."""


class StopCommand(msgspec.Struct, frozen=True, tag="stop"):
    """Stop all processes, and end."""


class StartCommand(msgspec.Struct, frozen=True, tag="start"):
    """All hosts are prepared: start the processes."""


class FinishCommand(msgspec.Struct, frozen=True, tag="finish"):
    """The processes of all hosts have ended well: do what is to be done after that."""


class HostPrepared(msgspec.Struct, frozen=True, tag="prepared"):
    """What comes before the processes is done."""


class RunnerStarted(msgspec.Struct, frozen=True, tag="started"):
    """The processes run."""

    pids: dict[str, int]


class LogLines(msgspec.Struct, frozen=True, tag="log"):
    """What a process has written."""

    process: str
    text: str


class ProcessNews(msgspec.Struct, frozen=True, tag="news"):
    """What has happened to a process, in words."""

    process: str
    text: str


class ProcessEnded(msgspec.Struct, frozen=True, tag="ended"):
    """A process has ended for good."""

    process: str
    code: int
    reason: str = ""


class RunnerFailed(msgspec.Struct, frozen=True, tag="failed"):
    """The host cannot go on, and its processes were stopped."""

    reason: str


class RunnerDone(msgspec.Struct, frozen=True, tag="done"):
    """All processes have ended, and the runner ends."""


LauncherMessage = SignOfLife | StartCommand | FinishCommand | StopCommand
RunnerEvent = HostPrepared | RunnerStarted | LogLines | ProcessNews | ProcessEnded | RunnerFailed | RunnerDone


def line_of(message: msgspec.Struct) -> bytes:
    """A message as a line."""
    return msgspec.json.encode(message) + b"\n"


def event_of(line: bytes) -> RunnerEvent:
    """A line of a runner. Raises msgspec.MsgspecError if it is none."""
    event: RunnerEvent = decode_json(line, RunnerEvent)
    return event
