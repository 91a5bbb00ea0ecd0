"""Holds the result of a benchmark: a table for people, and flat figures for programs."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.cli.console import console, shown_number

__all__ = ["Report"]


@dataclass(slots=True)
class Report:
    """One table of a benchmark; a cell is a number in the unit its heading names, a text, or empty."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[float | str | None, ...]] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def show(self) -> None:
        """Print the table."""
        shown = (tuple("-" if cell is None else shown_number(cell) for cell in row) for row in self.rows)
        console.table(self.title, dict.fromkeys(self.columns, "right"), shown)
