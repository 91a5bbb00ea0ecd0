"""Reads a TOML file with typed accessors; every error names file, line and key.

A table remembers the keys it was asked for, so that all others can be refused: a misspelt key that is silently ignored
is the worst kind of configuration.

The standard parser does not report the line that set a key, so ``TomlLines`` finds it. Heuristics, for error messages
only: headers and ``key =`` at the beginning of lines. Keys inside inline tables and arrays are reported at the line
where the outermost key begins; text in multi-line strings may mislead it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date, time
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import Final, TypeAlias, TypeVar

from penstock.live.errors import ConfigError

__all__ = ["Place", "TomlLines", "TomlTable", "read_toml"]

Place: TypeAlias = tuple[str | int, ...]
"""Keys, and positions in arrays of tables: ``("links", 1, "between")``."""

_FILE_BYTES_MAX: Final = 16 * 1024 * 1024
_NAMES: Final[dict[type, str]] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    float: "a number",
    list: "an array",
    dict: "a table",
}
_PROBLEM_CHARS_MAX: Final = 1_500
"""Characters of an error message, which may quote a value as long as the file."""
_PLACE_CHARS_MAX: Final = 200
_HEADER: Final = re.compile(r"^\s*(\[\[?)\s*(.+?)\s*\]\]?\s*(?:#.*)?$")
_DEPTH_MAX: Final = 20
"""Dots in a dotted key, beyond which it is ignored: nothing that we read is nested deeper."""
_KEY: Final = re.compile(r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_Value = TypeVar("_Value")


def read_toml(path: Path) -> TomlTable:
    """The file's outermost table; raises ``ConfigError`` if it cannot be read."""
    try:
        found = path.stat()
        if not S_ISREG(found.st_mode):
            raise ConfigError(f"{path}: not a regular file")
        if found.st_size > _FILE_BYTES_MAX:
            raise ConfigError(f"{path}: larger than {_FILE_BYTES_MAX:,} bytes")
        content = path.read_bytes()
        text = content.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 at byte {error.start}") from None
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+)", str(error))
        line = int(place.group(1)) if place else len(text.splitlines()) or 1
        raise ConfigError(f"{path}:{line}: not TOML: {_cut(str(error), _PROBLEM_CHARS_MAX)}") from None
    except RecursionError:
        raise ConfigError(f"{path}: arrays or tables are nested too deeply") from None
    except ValueError:
        # The parser leaves integers with thousands of digits to Python, which has a limit of its own.
        raise ConfigError(f"{path}: a number has too many digits") from None
    root = TomlTable(values, (), path, TomlLines(text))
    root.digest = sha256(content).hexdigest()
    return root


class TomlTable:
    """One table of the file."""

    def __init__(self, values: Mapping[str, object], place: Place, path: Path, lines: TomlLines) -> None:
        self._values = values
        self._place = place
        self._path = path
        self._lines = lines
        self._asked: dict[str, None] = {}
        self.digest = ""
        """Digest of the file; set on its outermost table only."""

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def keys(self) -> tuple[str, ...]:
        """The keys of the table."""
        return tuple(self._values)

    def text(self, key: str, default: str | None = None) -> str:
        """The string at a key; required if there is no default."""
        value = self._get(key, str, default)
        if not value and default is None:
            raise self.error(key, "must not be empty")
        if "\0" in value:
            raise self.error(key, "must not have a character NUL")
        return value

    def integer(self, key: str, default: int | None = None, *, low: int = 0, high: int = 2**63 - 1) -> int:
        """The integer at a key, within bounds."""
        value = self._get(key, int, default)
        if not low <= value <= high:
            raise self.error(key, f"{value} is not in {low} .. {high}")
        return value

    def number(self, key: str, default: float) -> float:
        """The number at a key, integer or float."""
        self._asked[key] = None
        value = self._values.get(key, default)
        if type(value) not in (int, float):
            raise self.error(key, f"must be a number, not {_shown(value)}")
        assert isinstance(value, int | float)
        try:
            return float(value)
        except OverflowError:
            raise self.error(key, "has too many digits") from None

    def flag(self, key: str, *, default: bool) -> bool:
        """The boolean at a key."""
        return self._get(key, bool, default)

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings of an array; empty if it is missing."""
        values: list[object] = self._get(key, list, [])
        for value in values:
            if type(value) is not str:
                raise self.error(key, f"must be an array of strings, but has {_shown(value)}")
        return tuple(map(str, values))

    def text_or_flag(self, key: str, *, default: bool) -> str | bool:
        """The string or boolean at a key."""
        self._asked[key] = None
        value = self._values.get(key, default)
        if not isinstance(value, str | bool):
            raise self.error(key, f"must be a string, true or false, not {_shown(value)}")
        return value

    def table(self, key: str) -> TomlTable:
        """The table at a key; an empty one if it is missing."""
        values: dict[str, object] = self._get(key, dict, {})
        return TomlTable(values, (*self._place, key), self._path, self._lines)

    def named_tables(self, key: str) -> dict[str, TomlTable]:
        """The tables in a table of tables, by name."""
        values: dict[str, object] = self._get(key, dict, {})
        outer = self.table(key)
        return {name: outer.table(name) for name in values}

    def tables(self, key: str) -> list[TomlTable]:
        """The tables of an array of tables."""
        values: list[object] = self._get(key, list, [])
        for value in values:
            if not isinstance(value, dict):
                raise self.error(key, f"must be an array of tables ([[{key}]]), but has {_shown(value)}")
        return [
            TomlTable(value, (*self._place, key, position), self._path, self._lines)
            for position, value in enumerate(values)
            if isinstance(value, dict)
        ]

    def line(self, key: str = "") -> int:
        """The line where the key was set, or where the table begins."""
        return self._lines.find((*self._place, key) if key else self._place)

    def error(self, key: str, problem: str) -> ConfigError:
        """An error about the key, or about the table if the key is empty; for the caller to raise."""
        place = (*self._place, key) if key else self._place
        where = f"{self._path}:{self._lines.find(place)}: {_cut(_dotted(place), _PLACE_CHARS_MAX)}"
        return ConfigError(f"{where}: {_cut(problem, _PROBLEM_CHARS_MAX)}")

    def refuse_others(self) -> None:
        """Raise ``ConfigError`` for a key that was never asked for."""
        for key in self._values:
            if key not in self._asked:
                close = get_close_matches(key, self._asked, n=1)
                hint = f"did you mean {close[0]}?" if close else f"known here: {', '.join(sorted(self._asked))}"
                raise self.error(key, f"unknown key; {hint}")

    def _get(self, key: str, kind: type[_Value], default: _Value | None) -> _Value:
        self._asked[key] = None
        value = self._values.get(key, default)
        if value is None:
            raise self.error(key, f"is missing; it must be {_NAMES[kind]}")
        # The exact type: a bool is an int to Python, but nobody means port = true.
        if type(value) is not kind:
            raise self.error(key, f"must be {_NAMES[kind]}, not {_shown(value)}")
        return value


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
        """The line where the place was set, or else where the closest enclosing place begins, or 1."""
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


def _shown(value: object) -> str:
    name = _NAMES.get(type(value), f"a {type(value).__name__}")
    if isinstance(value, dict | list):
        return name
    shown = value.isoformat() if isinstance(value, date | time) else repr(value)
    return f"{name} ({shown})"


def _cut(text: str, chars_max: int) -> str:
    """The text, or only its beginning and end if it is too long: the advice comes last."""
    half = chars_max // 2
    return text if len(text) <= chars_max else f"{text[:half]} ... {text[-half:]}"


def _dotted(place: Place) -> str:
    text = ""
    for each in place:
        text += f"[{each + 1}]" if isinstance(each, int) else f".{each}" if text else each
    return text or "the file"


def _split(dotted: str) -> Place:
    """The names in a dotted key, quoted or not, as the parser itself reads them; empty if it is invalid or too deep."""
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
