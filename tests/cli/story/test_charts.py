"""Charts as SVG: well-formed, within their frame, and with what is to be seen."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from penstock.cli.story.charts import Chart, Span, nice_step, rates, svg

LINES = {"sb1": [(0.0, 0.0), (5.0, 200.0), (10.0, 80.0)], "sb<2>": [(0.0, 0.0), (10.0, 20.0)]}


def drawn(chart: Chart) -> ET.Element:
    return ET.fromstring(svg(chart))  # noqa: S314 - our own text


def test_lines_stay_in_the_frame_and_have_names() -> None:
    picture = drawn(Chart("Clients & brokers", "clients", LINES, [Span("1", 0.0, 4.0), Span("2", 4.0, 10.0)]))
    lines = picture.findall("polyline")
    assert len(lines) == 2
    places = [tuple(map(float, pair.split(","))) for line in lines for pair in line.attrib["points"].split()]
    assert all(56 <= x <= 888 and 30 <= y <= 180 for x, y in places)
    # The highest value is the highest point, time goes to the right.
    first = [tuple(map(float, pair.split(","))) for pair in lines[0].attrib["points"].split()]
    assert first[1][1] == min(y for _, y in places)
    assert first == sorted(first)
    heights = [180 - y for _, y in first]
    assert heights[0] == 0
    assert heights[2] / heights[1] == pytest.approx(80 / 200, rel=1e-2)
    texts = [each.text for each in picture.iter("text")]
    assert {"Clients & brokers (clients)", "sb1", "sb<2>", "1", "2", "time (s)"} <= set(texts)
    assert len(picture.findall("rect")) == 2


def test_an_empty_chart_is_a_chart() -> None:
    picture = drawn(Chart("Nothing", "x", {"a": []}))
    assert picture.findall("polyline") == []
    assert any(each.text == "Nothing (x)" for each in picture.iter("text"))


def test_rates_are_over_some_samples() -> None:
    counts = [(0.0, 0.0), (1.0, 10.0), (2.0, 30.0), (2.0, 31.0), (4.0, 30.0)]
    assert rates(counts, window=1) == [(1.0, 10.0), (2.0, 20.0), (4.0, -0.5)]
    assert rates(counts[:3], window=2) == [(1.0, 10.0), (2.0, 15.0)]
    assert rates([]) == []


@pytest.mark.parametrize("highest", [0.0, 0.7, 1.0, 3.0, 99.0, 100.0, 101.0, 2_300.0, 1e6])
def test_steps_are_round_and_not_too_many(highest: float) -> None:
    step = nice_step(highest)
    assert 1 <= max(highest, 1.0) / step <= 4.0 + 1e-9
    assert step / 10 ** len(str(int(step))) > 0
