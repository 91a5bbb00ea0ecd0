"""Finds the line of a TOML file that set a key, which the standard parser does not tell.

Heuristics, for error messages only: headers and ``key =`` at the beginning of lines. What stands inside inline tables
and arrays is reported at the line where the outermost key begins; text in multi-line strings may mislead it.
"""

from __future__ import annotations

import re
import tomllib
from typing import Final, TypeAlias

__all__ = ["Place", "TomlLines"]

Place: TypeAlias = tuple[str | int, ...]
"""Keys, and positions in arrays of tables: ``("links", 1, "between")``."""

_HEADER: Final = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_DEPTH_MAX: Final = 20
"""Names in a dotted key that is looked for: nothing that we read is nested deeper."""
_KEY: Final = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


class TomlLines:
    """The line of every header and key of one file."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}
        table: Place = ()
        for number, line in enumerate(text.splitlines(), start=1):
            if (header := _HEADER.match(line)) and (names := _split(header.group(2))):
                table = self._enter(names, is_array=header.group(1) == "[[")
                self._remember(table, number)
            elif (key := _KEY.match(line)) and (names := _split(key.group(1))):
                self._remember(table + names, number)

    def find(self, place: Place) -> int:
        """The line where the place was set, or else where what contains it begins, or 1."""
        for length in range(len(place), 0, -1):
            if place[:length] in self._lines:
                return self._lines[place[:length]]
        return 1

    def _enter(self, names: Place, *, is_array: bool) -> Place:
        table: Place = ()
        for name in names[:-1]:
            table = self._last_of((*table, name))
        table = (*table, names[-1])
        if not is_array:
            return self._last_of(table)
        self._counts[table] = self._counts.get(table, -1) + 1
        return self._last_of(table)

    def _last_of(self, table: Place) -> Place:
        return (*table, self._counts[table]) if table in self._counts else table

    def _remember(self, place: Place, number: int) -> None:
        for length in range(1, len(place) + 1):
            self._lines.setdefault(place[:length], number)


def _split(dotted: str) -> Place:
    """The names in a dotted key, quoted or not, as the parser itself reads them; none if it is no key of ours."""
    if dotted.count(".") > _DEPTH_MAX:
        return ()
    try:
        values: object = tomllib.loads(f"{dotted} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    names: list[str] = []
    while isinstance(values, dict):
        ((name, values),) = values.items()
        names.append(name)
    return tuple(names)
