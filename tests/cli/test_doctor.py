"""clickline doctor: what it finds on this machine, and what it says when something is broken or unknown."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from clickline.cli.all_verbs import app
from clickline.cli.shared.machine import inspect
from clickline.cli.verbs.suite.doctor import doctor as doctor_verb

doctor = sys.modules["clickline.cli.verbs.suite.doctor"]
runner = CliRunner()
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_a_sound_machine_passes_and_every_version_is_shown() -> None:
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0, result.output
    shown = {line.split()[0] for line in result.stdout.splitlines()}
    assert {"clickline", "python", "torch", "numpy", "pyarrow", "processor", "memory", "threads"} <= shown
    assert "everything Clickline needs works here" in result.stdout


def test_findings_as_json_are_complete() -> None:
    findings = json.loads(runner.invoke(app, ["doctor", "--json"]).stdout)
    assert findings["native"]["loads"]
    assert findings["native"]["correct"]
    assert findings["broken"] == []
    assert findings["threads"] >= 1
    assert set(findings["versions"]) == {"clickline", "python", *doctor.REQUIRED}


def test_a_wrong_native_core_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(doctor.VECTORS, ("feature_key", b"68fd1e64"), 1)
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "the native core computes feature_key wrongly" in result.stdout


def test_a_missing_native_core_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import clickline

    monkeypatch.delattr(clickline, "_native", raising=False)
    monkeypatch.setitem(sys.modules, "clickline._native", None)
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "the native core cannot be loaded" in result.stdout


def test_a_missing_package_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    result = runner.invoke(app, ["doctor", "--json"])
    findings = json.loads(result.stdout)
    assert result.exit_code == 1
    assert findings["versions"]["torch"] is None
    assert findings["broken"][0].startswith("torch cannot be imported")
    assert runner.invoke(app, ["doctor"]).exit_code == 1


def test_a_missing_extra_comes_with_the_command_that_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_spec", lambda package: None if package == "s3fs" else object())
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "missing; for s3:// paths: pip install 'clickline[s3]'" in result.stdout
    assert doctor.examine().extras_missing == {"s3": "pip install 'clickline[s3]'"}


def test_extras_and_requirements_are_those_of_the_project() -> None:
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    declared = {
        extra: packages[0].partition(">")[0]
        for extra, packages in project["optional-dependencies"].items()
        if extra in doctor.EXTRAS
    }
    assert declared == {extra: package for extra, (package, _) in doctor.EXTRAS.items()}
    imported_as = {"pyyaml": "yaml", "grpcio": "grpc", "protobuf": "google.protobuf"}
    names = [line.partition(">")[0] for line in project["dependencies"]]
    required = {imported_as.get(name, name.replace("-", "_")) for name in names}
    # typer and rich have brought us here.
    assert required - {"typer", "rich"} == set(doctor.REQUIRED)
    assert doctor_verb is doctor.doctor


def test_a_machine_is_read_with_the_limits_of_its_container(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name\t: A CPU\nflags\t\t: sse avx2 fma avx512f\n\nmodel name\t: Another\n")
    (tmp_path / "meminfo").write_text("MemTotal:  1000 kB\nMemAvailable:  800 kB\n")
    (tmp_path / "memory.max").write_text("500000\n")
    (tmp_path / "memory.current").write_text("100000\n")
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    machine = inspect(proc=tmp_path, cgroup=tmp_path)
    assert (machine.cpu, machine.features) == ("A CPU", ["avx2", "fma", "avx512f"])
    assert (machine.memory_bytes, machine.usable_memory_bytes) == (1024000, 400000)
    assert machine.usable_cores == 0.5
    (tmp_path / "memory.max").write_text("max\n")
    assert inspect(proc=tmp_path, cgroup=tmp_path).usable_memory_bytes == 800 * 1024


def test_a_machine_that_tells_nothing_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = inspect(proc=tmp_path, cgroup=tmp_path)
    assert unknown.cpu
    assert (unknown.features, unknown.memory_bytes, unknown.usable_memory_bytes) == ([], None, None)
    monkeypatch.setattr("clickline.cli.shared.machine.inspect", lambda: unknown)
    result = runner.invoke(app, ["doctor"])
    assert result.exit_code == 0
    assert "unknown" in result.stdout
