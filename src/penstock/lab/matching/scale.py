"""How matching scales: microseconds per publication among a hundred to a million subscriptions.

The published figures are those of a prototype, a plain Python index with numpy on one core, written before the design
was settled; they are to be met or beaten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final

from penstock.lab.frame.experiment import Context, Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.matching import measures
from penstock.matching import MatchIndex
from penstock.model.values import Attributes
from penstock.selectors import Selector
from penstock.sim.workloads import QuoteWorkload, load_quotes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["MATCHING_SCALE", "quote_workload", "scale_sizes"]

_SIZES: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
_NAIVE_SIZES: Final = (1_000, 10_000)
_MIXED_SIZES: Final = (10_000, 100_000)
_CHANGES_AT: Final = 100_000
_COVERING_AT: Final = 10_000
_PROMOTION_SYMBOLS: Final = 2_000
_ROOT: Final = "class = 'STOCK'"

_CURVES: Final = {
    "naive": "naive loop",
    "enumerate": "find and list ids",
    "find": "find",
    "links": "which links",
}


def scale_sizes(max_size: int) -> list[int]:
    """The powers of ten that are measured, up to a limit."""
    return [size for size in _SIZES if size <= max_size]


def quote_workload(rng: Random, symbols: int, quotes: str) -> QuoteWorkload:
    """The quote workload, synthetic or from a file."""
    return QuoteWorkload(rng, symbols, load_quotes(quotes) if quotes else None)


def _run(context: Context) -> Mapping[str, float]:
    workload = quote_workload(context.rng, context.integer("symbols"), context.text("quotes"))
    publications = workload.sample(context.integer("publications"))
    measured = dict(_by_size(context, workload, publications))
    measured.update(_mixed(context, workload, publications))
    measured.update(_covering(context, workload))
    context.figure(lambda figure: _draw(figure, measured))
    ordered = sorted(measured, key=_reading_order)
    return {metric: round(measured[metric], 4) for metric in ordered}


def _by_size(
    context: Context, workload: QuoteWorkload, publications: Sequence[Attributes]
) -> Iterator[tuple[str, float]]:
    sizes, links = scale_sizes(context.integer("max_size")), context.integer("links")
    context.reporter.stage(f"parsing {sizes[-1]:,} subscriptions")
    selectors = measures.parsed(workload.subscriptions(sizes[-1]))
    index = MatchIndex()
    for size in sizes:
        context.reporter.stage(f"{size:,} subscriptions", total=4)
        measures.grow(index, selectors, size, links=links)
        yield f"find_us_{size}", measures.find_us(index, publications)
        context.reporter.advance()
        yield f"enumerate_us_{size}", measures.enumerate_us(index, publications)
        context.reporter.advance()
        yield f"links_us_{size}", measures.links_us(index, publications)
        context.reporter.advance()
        if size in _NAIVE_SIZES:
            yield f"naive_us_{size}", measures.naive_us(selectors[:size], publications)
        if size == _CHANGES_AT:
            yield from _changes(context, workload, index, selectors[:size])
        context.reporter.advance()


def _changes(
    context: Context, workload: QuoteWorkload, index: MatchIndex, selectors: Sequence[Selector]
) -> Iterator[tuple[str, float]]:
    size, links = len(selectors), context.integer("links")
    further = measures.parsed(islice(workload.subscriptions(size + size // 10), size, None))
    insert_us, remove_us = measures.insert_and_remove_us(index, further, links=links)
    yield f"insert_us_{size}", insert_us
    yield f"remove_us_{size}", remove_us
    yield f"bytes_per_subscription_{size}", measures.index_bytes(selectors, links=links)


def _mixed(
    context: Context, workload: QuoteWorkload, publications: Sequence[Attributes]
) -> Iterator[tuple[str, float]]:
    for size in _MIXED_SIZES:
        if size <= context.integer("max_size"):
            context.reporter.stage(f"{size:,} subscriptions with mixed predicates")
            index = MatchIndex()
            selectors = measures.parsed(workload.mixed_subscriptions(size))
            measures.grow(index, selectors, size, links=context.integer("links"))
            yield f"mixed_us_{size}", measures.find_us(index, publications)


def _covering(context: Context, workload: QuoteWorkload) -> Iterator[tuple[str, float]]:
    max_size = context.integer("max_size")
    if max_size >= _COVERING_AT:
        context.reporter.stage(f"covering set of {_COVERING_AT:,} subscriptions")
        texts = list(workload.subscriptions(_COVERING_AT))
        yield f"css_size_{_COVERING_AT}", measures.covering_size(measures.parsed(texts))
        # One subscriber to everything covers all others: the size without such subscribers tells more.
        others = [text for text in texts if text != _ROOT]
        yield f"css_size_without_root_{_COVERING_AT}", measures.covering_size(measures.parsed(others))
    if max_size >= _CHANGES_AT:
        context.reporter.stage(f"removing the root above {_CHANGES_AT:,} subscriptions")
        wide = QuoteWorkload(context.rng, _PROMOTION_SYMBOLS, days=50)
        texts = [text for text in wide.subscriptions(_CHANGES_AT + _CHANGES_AT // 10) if text != _ROOT]
        selectors = measures.parsed(texts[: _CHANGES_AT - 1])
        spent_ms, promoted = measures.promotion(Selector.parse(_ROOT), selectors)
        yield f"promote_ms_{_CHANGES_AT}", spent_ms
        yield f"promote_size_{_CHANGES_AT}", promoted


def _reading_order(metric: str) -> tuple[int, int]:
    """Sort key: by kind in the declared order, then by size."""
    kind, _, size = metric.rpartition("_")
    return _KINDS.index(kind), int(size)


def _draw(figure: Figure, measured: Mapping[str, float]) -> None:
    axes = figure.add_subplot()
    for colour, (kind, label) in enumerate(_CURVES.items()):
        _plot(axes, measured, kind, label=label, color=f"C{colour}", marker="o", linewidth=2)
        _plot(axes, _PUBLISHED, kind, label=f"{label}, prototype", color=f"C{colour}", marker="x", linestyle="none")
    axes.set(xscale="log", yscale="log", xlabel="subscriptions", ylabel="time per publication (µs)")
    axes.set_title("Matching: time per publication by number of subscriptions")
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.legend(loc="outside right upper", frameon=False)


def _plot(axes: Axes, figures: Mapping[str, float | str], kind: str, **style: Any) -> None:
    points = [(size, figures[f"{kind}_us_{size}"]) for size in _SIZES if f"{kind}_us_{size}" in figures]
    if points:
        sizes, times = zip(*points, strict=True)
        axes.plot(sizes, times, markersize=7, **style)


_KINDS: Final = (
    "find_us",
    "enumerate_us",
    "links_us",
    "naive_us",
    "mixed_us",
    "insert_us",
    "remove_us",
    "bytes_per_subscription",
    "css_size",
    "css_size_without_root",
    "promote_ms",
    "promote_size",
)

_PUBLISHED: Final[Mapping[str, float | str]] = {
    "find_us_10000": 3,
    "find_us_100000": 4,
    "find_us_1000000": 6,
    "enumerate_us_10000": 5,
    "enumerate_us_100000": 8,
    "enumerate_us_1000000": 28,
    **{f"links_us_{size}": 2 for size in _SIZES},
    "naive_us_10000": 2_150,
    "mixed_us_10000": 24,
    "mixed_us_100000": 55,
    "insert_us_100000": "3-5",
    "remove_us_100000": "3-5",
}

MATCHING_SCALE: Final = Experiment(
    name="matching-scale",
    summary="Time to find, list and route among 100 to 1,000,000 subscriptions, beside a naive loop",
    source="our own prototype, on the quote workload of the load balancing paper (six templates)",
    parameters=(
        Parameter("symbols", 40, "symbols in the made-up market", minimum=1, maximum=10_000),
        Parameter("publications", 2_000, "publications per measurement", quick=500, minimum=10),
        Parameter("links", 10, "links the subscriptions come from", minimum=1, maximum=1_024),
        Parameter("max_size", 1_000_000, "largest number of subscriptions", quick=10_000, minimum=100),
        Parameter("quotes", "", "CSV file of real quotes to use instead of the made-up market"),
    ),
    published=_PUBLISHED,
    run=_run,
)
