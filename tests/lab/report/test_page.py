"""The page has every chapter, says what was not measured, judges by bands, and escapes what it is given."""

from __future__ import annotations

from html.parser import HTMLParser

from penstock.lab.frame.experiment import Experiment
from penstock.lab.frame.parameters import Parameter
from penstock.lab.report.bands import at_most, exactly
from penstock.lab.report.chapters import Chapter, Entry
from penstock.lab.report.findings import Finding, Measure
from penstock.lab.report.page import report_page

EXPERIMENT = Experiment("toy", "a <toy>", "nowhere", (), {"speed": "about 3"}, lambda _context: {})
ENTRY = Entry("toy", {"speed": at_most(5), "lost": exactly(0)})
CHAPTER = Chapter("toys", "Toys & games", "What toys do.", "A paper.", (ENTRY, Entry("absent")), ("We <differ>.",))


def page(measures: dict[str, Measure]) -> str:
    finding = Finding(ENTRY, EXPERIMENT, measures, "seed 1", figure=b"\x89PNG")
    return report_page([CHAPTER], {"toy": finding}, title="A title", words="Some words.")


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_tag_is_closed_and_texts_are_escaped() -> None:
    text = page({"speed": Measure(4.0, 3.5, 4.5), "lost": Measure(0.0), "more": Measure(12345.678)})
    parser = _Balance()
    parser.feed(text)
    assert parser.open == []
    assert "a &lt;toy&gt;" in text
    assert "We &lt;differ&gt;." in text
    assert "Toys &amp; games" in text


def test_figures_stand_beside_what_was_published_with_their_interval() -> None:
    text = page({"speed": Measure(4.0, 3.5, 4.5), "lost": Measure(0.0), "more": Measure(12345.678)})
    assert "about 3" in text
    assert "4 ± 0.5" in text
    assert "12,345.7" in text
    assert "1 more figures" in text
    assert "2 of 2" in text
    assert "data:image/png;base64,iVBORw==" in text


def test_what_lies_outside_its_band_is_said() -> None:
    text = page({"speed": Measure(6.0), "lost": Measure(0.0)})
    assert text.count("<td class='bad'>outside</td>") == 1
    assert "1 of 2" in text


def test_what_was_not_measured_is_said() -> None:
    assert "<h3>absent</h3><p class='small'>not measured" in page({})


def test_a_small_run_is_not_judged_by_bands_for_large_ones() -> None:
    large = Experiment("toy", "a toy", "nowhere", (Parameter("size", 9, "how large", quick=1),), {}, lambda _: {})
    measures = {"speed": Measure(6.0), "lost": Measure(1.0)}
    finding = Finding(ENTRY, large, measures, "seed 1", parameters={"size": 1})
    text = report_page([CHAPTER], {"toy": finding}, title="A title", words="Some words.")
    assert text.count("<td class='small'>not judged: a small run</td>") == 1
    assert text.count("<td class='bad'>outside</td>") == 1
    assert "0 of 1" in text
