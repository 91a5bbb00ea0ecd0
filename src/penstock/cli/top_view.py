"""The picture that ``penstock top`` shows: brokers, rates, streams; what limits is told apart by colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.congestion_rows import RATES, STREAMS, outboxes, rate_rows, stream_rows
from penstock.protocol.status import BrokerStatus

__all__ = ["BROKERS", "Look", "broker_rows", "picture"]

BROKERS: Final = {
    "broker": "left",
    "links": "left",
    **dict.fromkeys(("clients", "subs", "published/s", "delivered/s", "outbox B"), "right"),
}
_ROWS_MAX: Final = 200
"""Rows of a table; more do not help anybody who looks at a terminal."""


@dataclass(slots=True, frozen=True)
class Look:
    """What all brokers said at one time."""

    at_s: float
    statuses: Mapping[str, BrokerStatus]
    """By broker."""
    problems: Mapping[str, str] = field(default_factory=dict)
    """Why the others said nothing."""


def picture(look: Look, before: Look | None, *, title: str) -> RenderableType:
    """All tables of one look; counts become rates against the look before."""
    parts: list[RenderableType] = [Text(title, style="bold")]
    for heading, columns, rows in (
        ("brokers", BROKERS, broker_rows(look, before)),
        ("pubends", RATES, list(rate_rows(look.statuses))),
        ("streams", STREAMS, list(stream_rows(look.statuses))),
    ):
        if rows:
            parts.append(_table(heading, columns, rows))
    parts += [Text(f"{name}: {problem}", style="red") for name, problem in look.problems.items()]
    return Group(*parts)


def broker_rows(look: Look, before: Look | None) -> list[tuple[str, ...]]:
    """A row for each broker."""
    rows = []
    for name, told in look.statuses.items():
        rates = (_rate(look, before, name, count) for count in ("published", "delivered"))
        links = ", ".join(told.links) or "none"
        rows.append((name, links, f"{told.clients:,}", f"{told.subscriptions:,}", *rates, outboxes(told)))
    return rows


def _rate(look: Look, before: Look | None, name: str, count: str) -> str:
    """How fast a count has grown; empty if nobody knows, as after a restart."""
    if before is None or name not in before.statuses or look.at_s <= before.at_s:
        return ""
    old, new = before.statuses[name], look.statuses[name]
    if old.incarnation != new.incarnation:
        return ""
    return f"{(new.counts[count] - old.counts[count]) / (look.at_s - before.at_s):,.0f}"


def _table(heading: str, columns: Mapping[str, str], rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title=heading, title_justify="left", box=None, pad_edge=False, header_style="dim")
    for column, justify in columns.items():
        table.add_column(column, justify="right" if justify == "right" else "left")
    for row in rows[:_ROWS_MAX]:
        table.add_row(*(Text(cell) for cell in row), style=_style(columns, row))
    if len(rows) > _ROWS_MAX:
        table.caption = f"and {len(rows) - _ROWS_MAX:,} more"
    return table


def _style(columns: Mapping[str, str], row: tuple[str, ...]) -> str:
    """Limited pubends and recovering streams are what one looks for."""
    cells = dict(zip(columns, row, strict=True))
    if cells.get("recovering") == "yes":
        return "red"
    return "yellow" if cells.get("allowed") else ""
