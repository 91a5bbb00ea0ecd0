"""Tells the story while it happens: live figures below the text on a terminal, plain lines elsewhere.

Everything goes to standard error; standard output gets only the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from rich.console import Console as RichConsole
from rich.console import Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.cli.story.plan import HOSTS
from penstock.cli.story.sampling import Sample

__all__ = ["Narrator", "bar", "figures_line", "figures_table"]

_BAR_CELLS: Final = 30
_LINE_EVERY_S: Final = 2.0
_INDENT: Final = 3


class Narrator:
    """Talks to people; a context manager, so that the terminal is restored afterwards."""

    def __init__(self, console: RichConsole) -> None:
        self._console = console
        self._live: Live | None = None
        self._shown_s = -_LINE_EVERY_S
        self._last: Sample | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def chapter(self, number: int, title: str, about: str) -> None:
        """Announce the next chapter."""
        self.show(Text(f"\n{number}. {title}", style="bold cyan"))
        self.show(Text(about, style="dim"))

    def say(self, text: str) -> None:
        """Report an event."""
        # Outside a terminal, each line should stay whole.
        is_narrow = self._console.is_terminal
        self.show(Padding(Text(text), (0, 0, 0, _INDENT), expand=False) if is_narrow else Text(" " * _INDENT + text))

    def show(self, what: RenderableType) -> None:
        """Print something; text wraps between words on a terminal, and nowhere else."""
        self._console.print(what, soft_wrap=isinstance(what, Text) and not self._console.is_terminal)

    def figures(self, sample: Sample, *, published: float, delivered: float) -> None:
        """Show the current figures; outside a terminal, only now and then."""
        before, self._last = self._last, sample
        if self._live is not None:
            self._live.update(figures_table(sample, published=published, delivered=delivered), refresh=True)
        elif sample.at_s - self._shown_s >= _LINE_EVERY_S and (before is None or sample.published > before.published):
            self._shown_s = sample.at_s
            self.say(figures_line(sample, published=published, delivered=delivered))

    def clear(self) -> None:
        """Stop showing figures."""
        if self._live is not None:
            self._live.update("", refresh=True)


def figures_line(sample: Sample, *, published: float, delivered: float) -> str:
    """Rates and clients per broker, in one line."""
    clients = "  ".join(f"{name} {count}" for name, count in _places(sample.clients).items())
    return f"{sample.at_s:5.1f} s | published {published:5,.0f}/s | delivered {delivered:6,.0f}/s | clients {clients}"


def figures_table(sample: Sample, *, published: float, delivered: float) -> RenderableType:
    """Rates and clients per broker for a terminal, with bars."""
    rates = Text(f"{sample.at_s:5.1f} s   published {published:,.0f}/s   delivered {delivered:,.0f}/s", style="bold")
    table = Table.grid(padding=(0, 2))
    total = max(sum(sample.clients.values()), 1)
    for name, count in _places(sample.clients).items():
        table.add_row(name, f"{count:>4}", Text(bar(count / total), style="green"))
    return Group(rates, table)


def bar(share: float, cells: int = _BAR_CELLS) -> str:
    """A share as a bar.

    >>> bar(0.5, 4)
    '██··'
    """
    full = round(max(0.0, min(share, 1.0)) * cells)
    return "█" * full + "·" * (cells - full)


def _places(clients: Mapping[str, int]) -> dict[str, int]:
    return {name: clients.get(name, 0) for name in HOSTS}
