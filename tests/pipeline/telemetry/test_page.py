from __future__ import annotations

from html.parser import HTMLParser

from penstock.pipeline.telemetry.page import telemetry_page
from pipeline.telemetry.reports import report


class Balanced(HTMLParser):
    """Sees that what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_page_is_whole_and_needs_nothing_else() -> None:
    page = telemetry_page(report(), {"episodes": "<svg><g></g></svg>", "bytes sent": "<svg></svg>"})
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    assert parser.links == []
    assert page.count("<svg>") == 2
    assert "2026-11-15 12:00:00Z to 2026-11-15 12:01:00Z" in page
    assert "congestion: pubend limited" in page


def test_names_cannot_break_out_of_the_page() -> None:
    page = telemetry_page(report(), {})
    assert "lake &amp; co" in page
    assert "mechanism=&lt;x&gt;" in page
    assert "<x>" not in page


def test_what_is_missing_is_said() -> None:
    page = telemetry_page(report(episodes=False), {}, "no charts: because")
    assert "None: no pubend was limited" in page
    assert "no charts: because" in page
