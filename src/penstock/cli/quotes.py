"""``penstock quotes``: makes up quotes and subscriptions, to feed ``penstock match`` and other engines."""

from __future__ import annotations

import csv
from random import Random
from typing import Annotated

import typer

from penstock.cli.console import console
from penstock.sim.workloads import QuoteWorkload, load_quotes
from penstock.sim.workloads.quote_files import COLUMNS
from penstock.sim.workloads.quotes import DAYS_MAX, SYMBOLS_MAX, Publication

__all__ = ["EXAMPLES", "quotes"]

EXAMPLES = """
Examples:

- `penstock quotes --count 100000 > quotes.csv`
- `penstock quotes --subscriptions --count 10000 > subscriptions.txt`
- `penstock match --selectors subscriptions.txt --messages quotes.csv --count`
- `penstock quotes --subscriptions --count 10000 --quotes real.csv.gz` (thresholds from real quotes)
"""

_SUBSCRIPTION_DAYS = 1_000


def quotes(
    *,
    seed: Annotated[int, typer.Option(min=0, help="The same seed makes the same market.")] = 0,
    count: Annotated[int, typer.Option(min=0, help="How many to print.")] = 1_000,
    symbols: Annotated[int, typer.Option(min=1, max=SYMBOLS_MAX, help="Stocks in the market.")] = 40,
    subscriptions: Annotated[
        bool, typer.Option("--subscriptions", help="Print subscriptions of the six templates instead of quotes.")
    ] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Print subscriptions with mixed predicates (ranges, IN, LIKE, ...).")
    ] = False,
    quotes_file: Annotated[
        str | None, typer.Option("--quotes", metavar="FILE", help="Take the market from a CSV file of quotes.")
    ] = None,
) -> None:
    """Make up a stock market: its quotes as CSV, or subscriptions to it as SQL, one per line."""
    listed = subscriptions or mixed
    days = _SUBSCRIPTION_DAYS if listed else min(DAYS_MAX, max(1, -(-count // symbols)))
    market = QuoteWorkload(Random(seed), symbols, load_quotes(quotes_file) if quotes_file else None, days=days)
    if listed:
        for text in market.mixed_subscriptions(count) if mixed else market.subscriptions(count):
            console.line(text)
        return
    rows = csv.writer(console, lineterminator="\n")
    rows.writerow(COLUMNS)
    rows.writerows(map(_cells, market.publications(count)))


def _cells(quote: Publication) -> list[str]:
    return [f"{value:.2f}" if isinstance(value := quote[column], float) else str(value) for column in COLUMNS]
