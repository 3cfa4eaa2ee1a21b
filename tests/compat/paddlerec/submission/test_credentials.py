"""Credentials: where they come from, and that copies of files have references in their place."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clickline.compat.paddlerec.submission.credentials import find_credentials, masked_yaml
from clickline.errors import JobError
from support.paddlerec.documented import FILES


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CLICKLINE_AK", "CLICKLINE_SK", "CLICKLINE_FS_UGI", "CLICKLINE_CREDENTIALS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_a_value_is_stronger_than_the_environment_and_that_than_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "clickline" / "credentials"
    file.parent.mkdir()
    file.write_text("# mine\nfs_ugi = file,1\nak = 1\n")
    file.chmod(0o600)
    assert find_credentials({}).values == {"fs_ugi": "file,1", "ak": "1"}
    monkeypatch.setenv("CLICKLINE_FS_UGI", "environment,2")
    assert find_credentials({"fs_ugi": "${env:CLICKLINE_FS_UGI}"}).values["fs_ugi"] == "environment,2"
    assert find_credentials({"fs_ugi": "plain,3"}).values["fs_ugi"] == "plain,3"
    monkeypatch.setenv("OURS", "4")
    found = find_credentials({"fs_ugi": "user,${env:OURS}"})
    assert found.values["fs_ugi"] == "user,4"
    assert {"OURS", "CLICKLINE_FS_UGI"} <= found.variables
    assert "4" not in repr(found)


def test_a_file_that_others_can_read_and_a_reference_to_nothing_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine"
    file.write_text("fs_ugi = planted\n")
    file.chmod(0o640)
    with pytest.raises(JobError, match="can be read by others: chmod 600") as refused:
        find_credentials({}, file=file)
    assert "planted" not in str(refused.value)
    with pytest.raises(JobError, match="there is no such file"):
        find_credentials({}, file=tmp_path / "none")
    with pytest.raises(JobError, match="environment variable NOT_THERE, which is not set"):
        find_credentials({"sk": "${env:NOT_THERE}"})
    file.chmod(0o600)
    file.write_text("fs_ugi: planted\n")
    with pytest.raises(JobError, match="line 1: expected KEY = VALUE") as refused:
        find_credentials({}, file=file)
    assert "planted" not in str(refused.value)


def test_options_are_those_of_the_file_system() -> None:
    found = find_credentials({"fs_ugi": "user,word"})
    assert found.storage_options("webhdfs://a:1/b") == {"user": "user", "password": "word"}
    assert found.storage_options("s3://bucket") == {"key": "user", "secret": "word"}
    assert found.storage_options("hdfs://a/b") == {"user": "user"}
    assert found.storage_options("file:///a") == {}
    with pytest.raises(JobError, match="has no meaning for gs://") as refused:
        found.storage_options("gs://bucket")
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("file", sorted(FILES.glob("*_backend.yaml")), ids=lambda file: file.stem)
def test_a_documented_backend_keeps_everything_but_its_credentials(file: Path) -> None:
    text = file.read_text().replace('ak: ""', "ak: planted-1 # mine").replace('sk: ""', "sk: 'planted-2'")
    masked = masked_yaml(text)
    assert "planted" not in masked and "usr,pwd" not in masked
    assert masked.count("\n") == text.count("\n") and "# mine" in masked
    values = yaml.safe_load(masked)
    assert values["submit"]["ak"] == "${env:CLICKLINE_AK}"
    assert values["config"]["fs_ugi"] == "${env:CLICKLINE_FS_UGI}"
    assert values["submit"]["files"] == yaml.safe_load(text)["submit"]["files"]


@pytest.mark.parametrize(
    "text",
    [
        "backend: ssh\nsubmit: {ak: planted, sk: planted-2, job_name: a}\nconfig: {fs_ugi: 'u,planted'}\n",
        "backend: ssh\nsubmit:\n  ak: |\n    planted\n  sk: >-\n    planted\n    more\n",
        'backend: ssh\nsubmit: {"sk": "planted"}\n',
    ],
)
def test_credentials_in_any_style_of_yaml_are_masked(text: str) -> None:
    assert "planted" not in masked_yaml(text)


def test_other_files_are_copied_as_they_are() -> None:
    text = "name: a\nsk: what of it\n"
    assert masked_yaml(text) == text
    assert masked_yaml("not: [yaml") == "not: [yaml"
