"""The workspace of a config.yaml: the directory that `{workspace}` stands for.

`paddlerec.models.rank.dnn` is a directory of PaddleRec's own package. Clickline brings that one along, with sample data
that workspace_samples.py makes up; models that read rows of the same shape share it.
"""

from __future__ import annotations

import os
from pathlib import Path

from clickline.config.loading.suggestions import suggestion
from clickline.errors import JobError

PACKAGED = Path(__file__).parents[1] / "workspaces"
_PACKAGES = ("paddlerec.models.", "fleetrec.models.")
_OWNER = "rank.dnn"
_SHARING = ("dcn", "dcn_v2", "deepfm", "ffm", "fibinet", "fm", "logistic_regression", "wide_deep", "xdeepfm")
"""Models below rank that have the workspace of dnn."""
_OF_A_MODEL = ("data", "model.py", "net.py", "dygraph_model.py")
"""By these a directory is known to be a copy of PaddleRec's own."""


def packaged_names() -> list[str]:
    """Workspaces that are brought along, as a config.yaml calls them."""
    return sorted(f"paddlerec.models.rank.{name}" for name in (_OWNER.rpartition(".")[2], *_SHARING))


def packaged_config(name: str) -> tuple[Path, list[str]]:
    """A config.yaml by its path, or by the name of a packaged workspace: paddlerec.models.rank.dnn.

    The second are values, as of -o, by which the file is that of a model that shares it.
    """
    if not is_packaged(name):
        return Path(name), []
    file, model = workspace_directory(name, Path()) / "config.yaml", last_name(name)
    if model == file.parent.name:
        return file, []
    saved = f"increment_{model}"
    values = {"workspace": name, "runner[0].save_checkpoint_path": saved, "runner[1].init_model_path": saved}
    return file, [f"{key}={value}" for key, value in values.items()]


def is_packaged(workspace: str) -> bool:
    """Whether a workspace is called by PaddleRec's package."""
    return workspace.startswith(_PACKAGES)


def last_name(workspace: str) -> str:
    """dnn of paddlerec.models.rank.dnn, or of models/rank/dnn."""
    return workspace.rpartition(".")[2] if is_packaged(workspace) else Path(workspace).name


def workspace_directory(workspace: str, beside: Path) -> Path:
    """The directory of a workspace; `beside` is that of config.yaml. Raises JobError."""
    if not is_packaged(workspace):
        # PaddleRec sees relative ones from the working directory, which is where config.yaml is as a rule.
        if (beside / workspace).is_dir():
            return beside / workspace
        # models/rank/dnn, or /home/somebody/models/rank/dnn, in the file dnn/config.yaml, from wherever it is read.
        inside = not Path(workspace).is_dir() and beside.resolve().name == Path(workspace).name
        return beside if inside else Path(workspace)
    model = last_name(workspace)
    # A copy of PaddleRec's own directory: config.yaml stands in the workspace that it names, with what it needs.
    named = beside.resolve().name.lower() == model.lower()
    if named and any((beside / name).exists() for name in _OF_A_MODEL):
        return beside
    if "paddlerec.models." + workspace.partition(".models.")[2] in packaged_names():
        return PACKAGED.joinpath(*_OWNER.split("."))
    if named:
        return beside
    known = suggestion(workspace, packaged_names(), kind="packaged workspaces")
    raise JobError(f"no workspace {workspace!r} is packaged; {known}; or name the directory that has model and data")


def substituted(text: str, directory: Path) -> str:
    """A path with `{workspace}` in it as the path that it stands for; URLs stay as they are."""
    path = text.replace("{workspace}", str(directory)) if "{workspace}" in text else text
    return path if "://" in path else os.path.normpath(path)


def seen_from(path: str, directory: Path) -> str:
    """A path as it is written, seen from a directory; URLs stay as they are."""
    return path if "://" in path else os.path.normpath(directory / path)
