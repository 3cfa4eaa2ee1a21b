"""Submissions of PaddleRec's documented files, with data at a WebHDFS server of the test that asks for an account."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from clickline.compat.paddlerec.translation.workspace_paths import PACKAGED
from support.paddlerec.documented import changed

ROWS = 120
"""Of the packaged sample."""
SAMPLE = PACKAGED / "rank" / "dnn" / "data" / "sample_data" / "train"


def write_files(directory: Path, *, url: str = "", ugi: str = '""', name: str = "PaddleRec_CTR") -> None:
    """config.yaml and backend.yaml of the documentation for MPI, with large batches, and a model.py for Paddle."""
    changed("mpi_config", directory, batch_size="batch_size: 10", print_interval="print_interval: 3")
    changed(
        "mpi_backend",
        directory,
        fs_name=f'fs_name: "{url}"',
        fs_ugi=f"fs_ugi: {ugi}",
        train_data_path="train_data_path: /logs/train" if url else 'train_data_path: ""',
        output_path="output_path: /models" if url else 'output_path: ""',
        job_name=f"job_name: {name}",
    )
    (directory / "model.py").write_text("import paddle.fluid as fluid\n")


def write_logs(root: Path, *, files: int = 2) -> None:
    """The sample as /logs/train of a file system, the same rows in each file."""
    place = root / "logs" / "train"
    place.mkdir(parents=True)
    (source,) = SAMPLE.iterdir()
    for number in range(files):
        shutil.copy(source, place / f"part-{number}")


def made_folder(output: str) -> Path:
    """The folder that a submission says it has made."""
    match = re.search(r"^The task submission folder is generated at (.+)$", output, re.MULTILINE)
    assert match is not None, output
    return Path(match[1])


def edit(file: Path, **values: str) -> None:
    """Change lines NAME=… of a generated file; a name that it lacks is added."""
    text = file.read_text()
    for name, value in values.items():
        changed_text, count = re.subn(rf"^{name}=.*$", lambda _, n=name, v=value: f"{n}={v}", text, flags=re.MULTILINE)
        text = changed_text if count else f"{name}={value}\n{text}"
    file.write_text(text)
