"""An SVG page: shapes and text with classes, and one style sheet with a light and a dark set of colours.

A browser picks the colours by `prefers-color-scheme`, also where the picture is an image in another page. Nothing is
loaded from elsewhere: fonts are the system's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

LIGHT = {
    "page": "#ffffff", "band": "#eaf1f8", "box": "#ffffff", "line": "#7d8590", "ink": "#1f2328", "soft": "#59636e",
    "own": "#0969da", "peer": "#afb8c1",
}  # fmt: skip
DARK = {
    "page": "#0d1117", "band": "#151e2c", "box": "#0d1117", "line": "#768390", "ink": "#e6edf3", "soft": "#9aa4af",
    "own": "#4493f8", "peer": "#545d68",
}  # fmt: skip


def rules(colours: Mapping[str, str]) -> str:
    """The colours of every class. Written out, since CSS variables are unknown to most programs but browsers."""
    return " ".join(
        [
            *(f".{kind} {{ fill: {colours[kind]}; }}" for kind in ("page", "band", "own", "peer")),
            f".box {{ fill: {colours['box']}; stroke: {colours['line']}; }}",
            f".title, .text {{ fill: {colours['ink']}; }}",
            f".note {{ fill: {colours['soft']}; }}",
            f".arrow {{ fill: none; stroke: {colours['line']}; }}",
            f".head {{ fill: {colours['line']}; }}",
        ]
    )


STYLE = f"""
svg {{ font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }}
.title {{ font-weight: 600; }}
.arrow {{ stroke-width: 1.5; }}
{rules(LIGHT)}
@media (prefers-color-scheme: dark) {{ {rules(DARK)} }}
"""
HEAD = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse">'
    '<path class="head" d="M0 0 8 4 0 8z"/></marker>'
)


@dataclass
class SvgPage:
    """Shapes in the order in which they are drawn."""

    title: str
    shapes: list[str] = field(default_factory=list)

    def rectangle(self, x: float, y: float, width: float, height: float, *, kind: str, radius: float = 6) -> None:
        self.shapes.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}"/>'
        )

    def text(
        self, x: float, y: float, words: str, *, kind: str = "text", size: float = 13, anchor: str = "start"
    ) -> None:
        self.shapes.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def arrow(self, points: list[tuple[float, float]], *, both: bool = False) -> None:
        path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
        start = ' marker-start="url(#head)"' if both else ""
        self.shapes.append(f'<path class="arrow" d="{path}"{start} marker-end="url(#head)"/>')

    def document(self, width: float, height: float) -> str:
        size = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{STYLE}</style>",
                f"<defs>{HEAD}</defs>",
                f'<rect class="page" width="{width:g}" height="{height:g}"/>',
                *self.shapes,
                "</svg>\n",
            ]
        )
