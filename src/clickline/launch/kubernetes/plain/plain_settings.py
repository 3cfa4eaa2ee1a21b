"""What the variables of a pod of plain YAML say: the job, its own role, how many others there are, what to run.

Everything that is missing or wrong is said at once, with the variable that looks like a misspelling of it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

from clickline.compat.paddle_environment.ranks import number_of, own_host
from clickline.errors import JobError

DEFAULT_PORT = 6174
_MOST_SERVERS, _MOST_TRAINERS = 4096, 65_536
_NAME = ("PADDLE_JOB_NAME",)
_SERVERS = ("PADDLE_PSERVERS_NUM", "PSERVERS")
_TRAINERS = ("PADDLE_TRAINERS_NUM", "TRAINERS", "PADDLE_INIT_NUM_GRADIENT_SERVERS")
_PORTS = ("PADDLE_PORT", "PADDLE_INIT_PORT", "PORT")
_ROLES = ("TRAINING_ROLE", "PADDLE_TRAINING_ROLE")
ROLES = {"PSERVER": "pserver", "TRAINER": "trainer", "WORKER": "trainer"}
KNOWN = (
    *_NAME,
    *_SERVERS,
    *_TRAINERS,
    *_PORTS,
    *_ROLES,
    "NAMESPACE",
    "POD_NAME",
    "POD_IP",
    "PADDLE_CURRENT_IP",
    "ENTRY",
    "TOPOLOGY",
    "TRAINER_PACKAGE",
)
_ALIKE = 0.8
_VERSIONS = ("v1", "v2")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSettings:
    """One pod's part of a job of plain YAML."""

    job: str
    """PADDLE_JOB_NAME, the value of the labels."""
    role: str
    """pserver or trainer."""
    pservers: int
    trainers: int
    port: int
    """Of the first server; the others have those after it, and the coordinator has the one after all of them."""
    namespace: str
    """Empty if it is that of the service account."""
    pod_name: str
    pod_ip: str
    entry: str
    """A command of the pod's own."""
    job_file: str
    """Of Clickline's role, where there is no such command."""
    package: str


def read_settings(env: Mapping[str, str], *, role: str | None, job_file: str = "") -> PlainSettings:
    """What the variables say; a role of None is that of the variables. Raises JobError with all that is wrong."""
    problems: list[str] = []
    if job_file in _VERSIONS:  # `start_trainer v2`, of releases with two ways to write a configuration
        job_file = ""
    namespace, package = env.get("NAMESPACE", "").strip(), env.get("TRAINER_PACKAGE", "").strip()
    own_name, own_ip = env.get("POD_NAME", "").strip() or env.get("HOSTNAME", "").strip(), own_host(env).strip()
    name = env.get("PADDLE_JOB_NAME", "").strip()
    if not name:
        problems.append(_missing(env, _NAME, "the value of the label paddle-job of the job's pods"))
    found_role = _role(env, role, problems)
    servers = _number(env, _SERVERS, problems, "the number of parameter servers", range(_MOST_SERVERS + 1))
    trainers = _number(env, _TRAINERS, problems, "the number of trainers", range(1, _MOST_TRAINERS + 1))
    highest = 65_535 - max(servers or 0, 0)
    port = _number(env, _PORTS, problems, "", range(1, highest + 1))
    entry, topology = env.get("ENTRY", "").strip(), env.get("TOPOLOGY", "").strip()
    if not entry and not (job_file or topology):
        problems.append(
            "there is nothing to run: set ENTRY to a command, or name the job's file, as in "
            f"`clickline k8s start_{found_role or 'fluid'} /job/job.yaml`"
        )
    if problems:
        raise JobError("the pod's variables are not complete:\n" + "\n".join(f"  {problem}" for problem in problems))
    return PlainSettings(
        job=name,
        role=found_role,
        pservers=servers or 0,
        trainers=trainers or 0,
        port=port or DEFAULT_PORT,
        namespace=namespace,
        pod_name=own_name,
        pod_ip=own_ip,
        entry="" if job_file else entry,
        job_file=job_file or topology,
        package=package,
    )


def misspelt(env: Mapping[str, str]) -> list[str]:
    """Notices about variables that nothing knows and that look like one that something does."""
    unknown = [name for name in env if name.startswith(("PADDLE_", "TRAIN", "PSERVER")) and name not in KNOWN]
    notices = []
    for name in sorted(unknown):
        close = difflib.get_close_matches(name, [one for one in KNOWN if one not in env], n=1, cutoff=0.9)
        if close:
            notices.append(f"{name} is set, which means nothing here, and {close[0]} is not: did you mean that?")
    return notices


def _role(env: Mapping[str, str], role: str | None, problems: list[str]) -> str:
    for name in _ROLES:
        text = env.get(name, "").strip()
        if not text:
            continue
        given = ROLES.get(text.upper())
        if given is None:
            problems.append(f"{name}: {text!r} is not a role; expected is one of {', '.join(ROLES)}")
            return role or ""
        if role is not None and given != role:
            problems.append(f"{name} says that this is a {given}, and start_{role} that it is a {role}")
        return given
    if role is None:
        problems.append(_missing(env, _ROLES, "PSERVER or TRAINER"))
    return role or ""


def _number(
    env: Mapping[str, str], names: tuple[str, ...], problems: list[str], meaning: str, allowed: range
) -> int | None:
    """The number of whichever of these variables is set; if several are, they must agree."""
    found: dict[str, int] = {}
    for name in names:
        try:
            number = number_of(env, name)
        except JobError as error:
            problems.append(str(error))
            return None
        if number is not None:
            found[name] = number
    if not found:
        if meaning:
            problems.append(_missing(env, names, meaning))
        return None
    name, number = next(iter(found.items()))
    if number not in allowed:
        problems.append(f"{name}: {number} is not between {allowed.start} and {allowed.stop - 1}")
    # A port for something else may be called PORT: the first counts.
    if meaning and len(set(found.values())) > 1:
        problems.append(" and ".join(f"{key} is {value}" for key, value in found.items()) + ": they must agree")
    return number


def _missing(env: Mapping[str, str], names: tuple[str, ...], meaning: str) -> str:
    """What to set; with a variable that looks like one of its names, if there is one."""
    unknown = [variable for variable in env if variable not in KNOWN]
    # Of all its names, not the first alone: whoever writes TRAINNERS has meant TRAINERS.
    pairs = [(name, difflib.get_close_matches(name, unknown, n=1, cutoff=_ALIKE)) for name in names]
    hint = next((f"; {close[0]} is set: did you mean {name}?" for name, close in pairs if close), "")
    return f"{' or '.join(names[:2])} is not set: {meaning}{hint}"
