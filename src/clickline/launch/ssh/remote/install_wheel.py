"""Makes an environment of a job's own from a wheel. The last two arguments are the job's directory and the wheel in it.

JOB/venv has Clickline from the wheel. What it depends on is taken from the Python that runs this, as far as that has it
in versions that fit; pip fetches the rest, as it is configured on this host. Prints the new Python's path; on failure
the last lines of pip, all of which are in JOB/log/install.log. Runs by itself on the host, so it uses the standard
library only.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import venv
from pathlib import Path

_SHOWN = 3
"""Last lines of pip that tell why it failed."""


def run(command: list[str], log: Path) -> None:
    """Run a command; if it fails, end with its last lines."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    with log.open("ab") as file:
        file.write(" ".join(command).encode() + b"\n" + done.stdout)
    if done.returncode:
        lines = [line.strip() for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        sys.exit(" / ".join(lines[-_SHOWN:]) or f"{command[0]} failed and said nothing")


def main() -> None:
    directory, wheel = Path(sys.argv[-2]), Path(sys.argv[-1])
    environment, log = directory / "venv", directory / "log" / "install.log"
    has_pip = importlib.util.find_spec("pip") is not None
    try:
        venv.create(environment, symlinks=True, with_pip=not has_pip)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"no environment can be made: {error}; is pip, or the package python3-venv, installed?")
    python = str(environment / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python] if has_pip else [python, "-m", "pip"]
    install = [*pip, "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    run([*install, "--no-deps", str(directory / wheel)], log)
    # Behind its own packages, and not by --system-site-packages: the Python that runs this may itself be one of an
    # environment, whose packages a new environment would not see.
    found = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    own = environment / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    (own / "of_the_host.pth").write_text("".join(f"{path}\n" for path in found), encoding="utf-8")
    run([*install, str(directory / wheel)], log)
    run([python, "-c", "import clickline._native"], log)
    sys.stdout.write(python + "\n")


main()
