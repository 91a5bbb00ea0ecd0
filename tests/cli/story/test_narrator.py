"""What people see: lines elsewhere, figures that are drawn over on a terminal."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from penstock.cli.story.narrator import Narrator, bar, figures_line, figures_table
from penstock.cli.story.sampling import Sample


def sample(at_s: float, published: int = 10) -> Sample:
    return Sample(at_s, published, 100, {}, {}, {"sb1": 150, "sb4": 50})


def test_lines_say_rates_and_places() -> None:
    line = figures_line(sample(12.34), published=120.4, delivered=1_234.0)
    assert line == " 12.3 s | published   120/s | delivered  1,234/s | clients sb1 150  sb2 0  sb3 0  sb4 50"


def test_a_file_gets_a_line_now_and_then_while_something_is_published() -> None:
    out = StringIO()
    with Narrator(Console(file=out, width=200)) as narrator:
        narrator.chapter(3, "Title", "About")
        for number in range(9):
            narrator.figures(sample(number / 2, published=number), published=1.0, delivered=2.0)
        narrator.figures(sample(90.0, published=8), published=0.0, delivered=0.0)
        narrator.say("done [not markup]")
        narrator.clear()
    lines = out.getvalue().splitlines()
    assert lines[:3] == ["", "3. Title", "About"]
    assert sum("published" in line for line in lines) == 3
    assert lines[-1] == "   done [not markup]"


def test_a_terminal_gets_bars_that_go_away() -> None:
    out = StringIO()
    with Narrator(Console(file=out, width=80, force_terminal=True)) as narrator:
        narrator.figures(sample(1.0), published=1.0, delivered=2.0)
        narrator.say("something happened")
    assert "█" in out.getvalue()
    assert "something happened" in out.getvalue()


def test_a_terminal_breaks_text_between_words_below_where_it_began() -> None:
    out = StringIO()
    with Narrator(Console(file=out, width=20, force_terminal=True, color_system=None)) as narrator:
        narrator.say("one two three four five")
    shown = [line.rstrip() for line in out.getvalue().splitlines()]
    assert shown[0].endswith("   one two three")
    assert shown[1] == "   four five"


def test_bars_are_shares() -> None:
    assert [bar(share, 4) for share in (-1.0, 0.0, 0.26, 1.0, 2.0)] == ["····", "····", "█···", "████", "████"]
    out = StringIO()
    Console(file=out, width=80).print(figures_table(sample(1.0), published=1.0, delivered=2.0))
    shares = [line.count("█") for line in out.getvalue().splitlines() if line.startswith("sb")]
    assert shares == [22, 0, 0, 8]
