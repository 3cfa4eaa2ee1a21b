"""Hooks of mkdocs.yml: what pages link to outside of docs/, and headings named as GitHub names them.

The same Markdown is read in a checkout, on GitHub and as a site. In the site there are no source files to link to, so
such a link becomes the path in code letters; tests/documentation checks that the file is there.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

LINK = re.compile(r"(?P<image>!?)\[(?P<words>[^\]]*)\]\((?P<target>(?!\w+:|#)[^()\s]+)\)")


def on_config(config: Any) -> Any:
    """Headings get the anchors that GitHub gives them."""
    config.mdx_configs["toc"] = {**config.mdx_configs.get("toc", {}), "slugify": github_slug}
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    folder = PurePosixPath(page.file.src_uri).parent

    def within_the_site(link: re.Match[str]) -> str:
        name, _, _ = link["target"].partition("#")
        path = normpath(folder / name)
        if not path.startswith("..") or link["image"]:
            return link[0]
        shown = path.removeprefix("../")
        words = link["words"].strip("`")
        return f"`{shown}`" if words in {shown, Path(shown).name} or shown.endswith(words) else f"{words} (`{shown}`)"

    return LINK.sub(within_the_site, markdown)


def github_slug(words: str, separator: str) -> str:
    plain = re.sub(r"[^\w\- ]", "", words.lower())
    return plain.replace(" ", separator)
