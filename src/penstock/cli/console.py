"""The one object that prints and exits: results to standard output, everything else to standard error.

Exit codes: 0 done, 1 failure, 2 misuse, 130 interrupted from the keyboard, 141 broken output pipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, NoReturn

import msgspec
import typer
from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["FAILURE", "MISUSE", "Console", "Printable", "console", "printable", "printable_json", "shown_number"]

FAILURE: Final = 1
MISUSE: Final = 2
_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
_FILE_COLUMNS: Final = 120
"""Width of a table when the output is not a terminal."""


class Console:
    """Prints results and messages, and ends the program."""

    def __init__(self) -> None:
        self.errors: Final = RichConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        """Standard error, for messages to people."""

    def write(self, text: str) -> None:
        """Write text to standard output, unchanged."""
        sys.stdout.write(text)

    def line(self, text: str) -> None:
        """Write a line to standard output, unchanged."""
        self.write(text + "\n")

    def json(self, value: object) -> None:
        """Write a value to standard output as indented JSON."""
        self.line(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2)))

    def table(self, title: str, columns: Mapping[str, str], rows: Iterator[tuple[str, ...]]) -> None:
        """Write a table to standard output; ``columns`` maps headings to left or right."""
        table = Table(title=title, title_justify="left")
        for heading, justify in columns.items():
            table.add_column(heading, justify="right" if justify == "right" else "left", overflow="fold")
        for row in rows:
            table.add_row(*map(printable, row))
        printer = RichConsole(highlight=False, emoji=False)
        if not printer.is_terminal:
            printer = RichConsole(highlight=False, width=_FILE_COLUMNS, emoji=False)
        printer.print(table, markup=False)

    def note(self, text: str) -> None:
        """Write a message to standard error."""
        self.errors.print(printable(text), markup=False)

    def fail(self, message: str, code: int = FAILURE) -> NoReturn:
        """Print an error message, and exit with this code."""
        self.errors.print(printable(f"error: {message}"), markup=False, style="red")
        raise typer.Exit(code)

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Turn any error that Penstock raises on purpose into one clear message and an exit code."""
        try:
            yield
            sys.stdout.flush()
        except MisuseError as error:
            self.fail(str(error), MISUSE)
        except PenstockError as error:
            self.fail(str(error), FAILURE)
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None
        except BrokenPipeError:
            _forget_standard_output()
            raise typer.Exit(_BROKEN_PIPE) from None


class Printable:
    """Renders something without terminal control sequences: names and reasons come from anybody."""

    def __init__(self, inside: RenderableType) -> None:
        self._inside = inside

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        """Render the content, with unprintable characters escaped."""
        for each in console.render(self._inside, options):
            yield each if each.control else Segment(printable(each.text), each.style)


def printable(text: str) -> str:
    """Escape all characters that a terminal would not show, except newlines."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else _written_out(each) for each in text)


def printable_json(encoded: bytes) -> str:
    """Decode JSON, and escape all characters that a terminal would not show."""
    text = encoded.decode()
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)


def _written_out(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shown_number(value: float | str | None) -> str:
    """A number for people: three significant digits, or all those before the point of a large one."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if float(value).is_integer() or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _forget_standard_output() -> None:
    # Python flushes standard output once more on its way out, and would complain about the same pipe again.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


console: Final = Console()
