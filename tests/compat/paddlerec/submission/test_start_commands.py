"""start_cmd: which file it runs, and that whatever else it says is refused before anything is started."""

from __future__ import annotations

import pytest

from clickline.compat.paddlerec.submission.start_command import read_start_command
from clickline.errors import JobError


@pytest.mark.parametrize(
    ("text", "config"),
    [
        ("python -m paddlerec.run -m ./config.yaml", "./config.yaml"),
        ("python -m paddlerec.run -m config.yaml -b backend.yaml", "config.yaml"),
        ("/opt/python3.7/bin/python3.7 -u -m paddlerec.run --model a/b.yaml", "a/b.yaml"),
        ("python3 -m clickline.run -m 'my config.yaml'", "my config.yaml"),
        ("clickline run -m config.yaml", "config.yaml"),
        ("clickline train ./job.yaml", "./job.yaml"),
        ("python -m clickline train job.yaml", "job.yaml"),
    ],
)
def test_the_file_is_found(text: str, config: str) -> None:
    assert read_start_command(text).config == config


def test_values_and_variables_are_carried() -> None:
    start = read_start_command(
        "FLAGS_rpc_deadline=5000 python -m paddlerec.run -m c.yaml -o runner.epochs=2 mode=x --set seed=3"
    )
    assert start.environment == {"FLAGS_rpc_deadline": "5000"}
    assert (start.paddle_overrides, start.overrides) == (["runner.epochs=2", "mode=x"], ["seed=3"])
    assert start.on_node() == ("python3 -m clickline.run -m c.yaml -o runner.epochs=2 -o mode=x --set seed=3")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "python train.py",
        "sh run.sh",
        "python -m paddlerec.run",
        "python -m paddlerec.run -m a.yaml; rm -rf /",
        "python -m paddlerec.run -m a.yaml && echo done",
        "python -m paddlerec.run -m a.yaml > log",
        "python -m paddlerec.run -m a.yaml --unknown",
        "python -m paddlerec.run -m 'a.yaml",
        "clickline publish run",
    ],
)
def test_other_commands_are_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(JobError, match=r"start_cmd: .*expected `python -m paddlerec\.run -m \./config\.yaml`"):
        read_start_command(text)
