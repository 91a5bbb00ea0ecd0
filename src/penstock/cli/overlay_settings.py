"""``penstock overlay settings``: every setting of an overlay file, with its default and what it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

import typer

from penstock.cli.console import console
from penstock.live.reference import SECTIONS, Section, settings_of

__all__ = ["EXAMPLES", "settings", "settings_page"]

EXAMPLES = """
Examples:

- `penstock overlay settings`
- `penstock overlay settings --markdown > docs/configuration.md`
- `penstock overlay settings --json | jq '.["[congestion]"][].name'`
"""
_INTRODUCTION = """# Configuration reference

Every setting of `overlay.toml`, as `penstock overlay settings --markdown` prints it. Names, defaults and texts
are those of the settings classes, which check them; [running an overlay](overlay.md) explains the rest of the file.
"""


def settings(
    *,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print the page of the manual.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every setting that an overlay file may have."""
    if as_markdown:
        console.write(settings_page())
    elif as_json:
        told = {section.table: [asdict(each) for each in settings_of(section)] for section in SECTIONS}
        console.json(told)
    else:
        columns = {"setting": "left", "default": "right", "unit": "left", "what it is": "left"}
        for section in SECTIONS:
            console.table(f"{section.table}: {section.about}", columns, _rows(section))


def settings_page() -> str:
    """The page of the manual."""
    return "\n".join([_INTRODUCTION, *(line for section in SECTIONS for line in _section(section))])


def _rows(section: Section) -> Iterator[tuple[str, ...]]:
    for each in settings_of(section):
        yield each.name, each.default, each.unit, each.help


def _section(section: Section) -> Iterator[str]:
    yield f"## `{section.table}`\n\n{section.about}\n\n| setting | default | unit | what it is |\n|---|---|---|---|"
    for name, default, unit, text in _rows(section):
        shown = f"`{default}`" if default else ""
        yield f"| `{name}` | {shown} | {unit} | {text} |"
    yield ""
