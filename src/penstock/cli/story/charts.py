"""Draws small line charts as SVG text, with the chapters marked; they load nothing, and need only a browser."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from math import ceil, log10
from typing import Final

__all__ = ["COLOURS", "Chart", "Span", "nice_step", "rates", "svg"]

COLOURS: Final = ("#4477aa", "#cc6677", "#228833", "#bb8800")
"""Distinguishable for colour-blind readers, too."""
_WIDTH, _HEIGHT = 900, 220
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 12, 30, 40
_TICKS: Final = 4
_LEGEND_PX: Final = 110


@dataclass(slots=True, frozen=True)
class Span:
    """A chapter on the time axis."""

    label: str
    begun_s: float
    ended_s: float


@dataclass(slots=True, frozen=True)
class Chart:
    """Lines over time."""

    title: str
    unit: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    """Points of time and value, by name."""
    spans: Sequence[Span] = ()


def rates(points: Sequence[tuple[float, float]], window: int = 4) -> list[tuple[float, float]]:
    """Turn counts into rates per second, each over ``window`` samples.

    >>> rates([(0.0, 0), (1.0, 10), (2.0, 30)], window=1)
    [(1.0, 10.0), (2.0, 20.0)]
    """
    found = []
    for place in range(1, len(points)):
        (first_s, first), (last_s, last) = points[max(0, place - window)], points[place]
        if last_s > first_s:
            found.append((last_s, (last - first) / (last_s - first_s)))
    return found


def nice_step(highest: float, ticks: int = _TICKS) -> float:
    """The distance between marks on an axis: a round number that gives a few marks, at most ``ticks``.

    >>> nice_step(95), nice_step(2300), nice_step(0)
    (25.0, 1000.0, 0.25)
    """
    rough = max(highest, 1.0) / ticks
    power = 10.0 ** (ceil(log10(rough)) - 1)
    return next(power * each for each in (1, 2, 2.5, 5, 10) if power * each >= rough - 1e-12)


def svg(chart: Chart) -> str:
    """The chart as an SVG element."""
    points = [point for line in chart.series.values() for point in line]
    last_s = max([*(at_s for at_s, _ in points), *(each.ended_s for each in chart.spans), 1.0])
    step = nice_step(max((value for _, value in points), default=1.0))
    top = step * max(1, ceil(max((value for _, value in points), default=1.0) / step))
    frame = _Frame(last_s, top)
    body = [
        f'<text x="{_LEFT}" y="18" class="title">{escape(f"{chart.title} ({chart.unit})")}</text>',
        *_chapters(chart.spans, frame),
        *_axes(frame, step),
        *_lines(chart, frame),
    ]
    head = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(chart.title)}">'
    return "\n".join([head, *body, "</svg>"])


@dataclass(slots=True, frozen=True)
class _Frame:
    """Maps time and value to places on the page."""

    last_s: float
    top: float

    def x(self, at_s: float) -> float:
        return _LEFT + at_s / self.last_s * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        return _HEIGHT - _BOTTOM - value / self.top * (_HEIGHT - _TOP - _BOTTOM)


def _chapters(spans: Sequence[Span], frame: _Frame) -> Iterator[str]:
    for number, span in enumerate(spans):
        left, right = frame.x(span.begun_s), frame.x(span.ended_s)
        kind = "even" if number % 2 else "odd"
        height = _HEIGHT - _TOP - _BOTTOM
        yield f'<rect class="{kind}" x="{left:.1f}" y="{_TOP}" width="{right - left:.1f}" height="{height}"/>'
        yield f'<text x="{(left + right) / 2:.1f}" y="{_TOP + 12}" class="chapter">{escape(span.label)}</text>'


def _axes(frame: _Frame, step: float) -> Iterator[str]:
    value = 0.0
    while value <= frame.top + step / 2:
        y = frame.y(value)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="value">{value:,g}</text>'
        value += step
    every_s = nice_step(frame.last_s, 8)
    at_s = 0.0
    while at_s <= frame.last_s:
        yield f'<text x="{frame.x(at_s):.1f}" y="{_HEIGHT - _BOTTOM + 15}" class="time">{at_s:g}</text>'
        at_s += every_s
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" class="value">time (s)</text>'


def _lines(chart: Chart, frame: _Frame) -> Iterator[str]:
    for number, (name, line) in enumerate(chart.series.items()):
        colour = COLOURS[number % len(COLOURS)]
        # A gap in the samples shows as a straight line: nobody looked then, which is not to say that nothing happened.
        places = " ".join(f"{frame.x(at_s):.1f},{frame.y(value):.1f}" for at_s, value in line)
        if sum(1 for _ in pairwise(line)):
            yield f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{places}"/>'
        x, y = _LEFT + number * _LEGEND_PX, _HEIGHT - 10
        yield f'<line x1="{x}" x2="{x + 18}" y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>'
        yield f'<text x="{x + 24}" y="{y + 4}" class="name">{escape(name)}</text>'
