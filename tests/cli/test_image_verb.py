"""`clickline image`: what runs on Kubernetes and how to build it, and that it says what the Containerfile does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml
from typer.testing import CliRunner

from clickline import __version__
from clickline.cli.all_verbs import app

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")
runner = CliRunner()


def said(*arguments: str) -> str:
    result = runner.invoke(app, ["image", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_it_names_the_image_that_the_shipped_manifests_run() -> None:
    named = json.loads(said("--json"))["image"]
    files = [*(ROOT / "deploy").rglob("*.yaml")]
    images = {image for file in files for image in re.findall(r"image: (\S+)", file.read_text(encoding="utf-8"))}
    assert images == {named} == {f"clickline:{__version__}"}


def test_it_prints_commands_with_the_name_that_is_asked_for() -> None:
    page = said("--name", "registry.example.com/ctr/clickline")
    tag = f"registry.example.com/ctr/clickline:{__version__}"
    assert f"podman build -t {tag} ." in page
    assert f"docker build -t {tag} -f Containerfile ." in page
    assert f"podman push {tag}" in page


def test_a_name_without_a_registry_is_not_to_be_pushed() -> None:
    assert json.loads(said("--json"))["push"] == ""


def test_extras_and_roles_are_those_of_the_containerfile_and_of_the_command_line() -> None:
    facts = json.loads(said("--json"))
    assert set(re.findall(r"extras\['(\w+)'\]", CONTAINERFILE)) == set(facts["extras"])
    verbs = {command.name or command.callback.__name__ for command in app.registered_commands if command.callback}
    groups = {group.name for group in app.registered_groups}
    assert set(facts["roles"]) <= verbs | groups
    assert 'ENTRYPOINT ["clickline"]' in CONTAINERFILE


def test_the_operator_s_deployment_asks_for_the_user_of_the_image() -> None:
    documents = yaml.safe_load_all((ROOT / "deploy" / "v1" / "operator.yaml").read_text(encoding="utf-8"))
    (deployment,) = (document for document in documents if document["kind"] == "Deployment")
    user = deployment["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
    assert f"USER {user}:{user}" in CONTAINERFILE
