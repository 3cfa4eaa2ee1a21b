"""`clickline image`: the image in which roles and operator run on Kubernetes, and how to build it."""

from __future__ import annotations

from typing import Annotated

import typer

from clickline.cli.shared.output import AsJson, print_json, say

_ROLES = ("pserver", "trainer", "coordinator", "train", "operator", "k8s")
_EXTRAS = ("kubernetes", "s3", "hdfs")
_CONTENTS = (
    "Debian 12 with Python 3.11, this package with its native core in /opt/clickline, and the extras "
    f"{', '.join(_EXTRAS)}; versions are those of constraints.txt",
    "user 1000, home /tmp; the file system may be read-only, with a volume at /tmp",
    "the entry point is clickline, so that a container's args are a verb and what follows it; paddle_k8s is another "
    "name of clickline k8s",
)


def image(
    name: Annotated[
        str,
        typer.Option(
            "--name", metavar="NAME", help="What to call it; a registry before it, such as example.com/ctr/clickline."
        ),
    ] = "clickline",
    as_json: AsJson = False,
) -> None:
    """Say which image runs on Kubernetes, what is in it, and the commands that build it from the source.

    Example: clickline image --name registry.example.com/ctr/clickline
    """
    from clickline import __version__

    tag = f"{name}:{__version__}"
    builds = [
        f"podman build -t {tag} .",
        f"buildah build -t {tag} .",
        f"docker build -t {tag} -f Containerfile .",
    ]
    push = f"podman push {tag}" if "/" in name else ""
    if as_json:
        facts = {"image": tag, "version": __version__, "build": builds, "push": push, "contents": list(_CONTENTS)}
        print_json(facts | {"roles": list(_ROLES), "extras": list(_EXTRAS)})
        return
    say(f"image: {tag}")
    for sentence in _CONTENTS:
        say(f"  {sentence}")
    say("build it in a checkout of the source, with one of:")
    for command in builds:
        say(f"  {command}")
    say("for PyTorch without CUDA, several GB less, add:")
    say("  --build-arg PIP_EXTRA_INDEX_URL=..., the index that pytorch.org names under Linux, Pip, CPU")
    if push:
        say(f"then: {push}")
    say(f"in a pod: image: {tag}, args: [pserver, job.yaml]; roles: {', '.join(_ROLES)}")
