"""What the benchmarks that have sections share: their command line, and running one section after the other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import NoReturn

from peers import PeerError
from rounds import Report, console, sections_of

Section = Callable[[Report, argparse.Namespace], None]


def parser_for(text: str | None, *, example: str) -> argparse.ArgumentParser:
    """A parser that shows a module's own description, as it is."""
    return argparse.ArgumentParser(
        description=text, epilog=f"example: {example}", formatter_class=argparse.RawDescriptionHelpFormatter
    )


def run_sections(name: str, sections: Mapping[str, Section], parser: argparse.ArgumentParser) -> None:
    """Run the sections that were asked for, all unless told otherwise, into one report."""
    known = tuple(sections)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each contender (default %(default)s)")
    parser.add_argument(
        "--only", type=sections_of(known), default=list(known), metavar="SECTION,…", help="sections to run"
    )
    arguments = parser.parse_args()
    report = Report(name if arguments.only == list(known) else "-".join([name, *arguments.only]))
    for place, section in enumerate(arguments.only):
        console.rule(f"{place + 1}/{len(arguments.only)} {section}", align="left")
        sections[section](report, arguments)
    report.finish()


def guarded(main: Callable[[], None]) -> NoReturn:
    """Run a benchmark; a peer that is missing or fails ends it with a line instead of a traceback."""
    try:
        main()
    except PeerError as error:
        sys.exit(str(error))
    sys.exit(0)
