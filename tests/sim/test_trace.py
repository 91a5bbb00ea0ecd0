"""The trace keeps the last events readable, and a digest of all."""

from __future__ import annotations

from io import StringIO

from penstock.sim.trace import Trace


def filled(count: int, last: str = "happens") -> Trace:
    trace = Trace(lines_max=3)
    for number in range(count):
        trace.note(number, "b1", "happens" if number < count - 1 else last)
    return trace


def test_lines_show_time_since_the_start_who_and_what() -> None:
    trace = Trace(start_us=5_000_000)
    trace.note(6_500_001, "b1", "link-up neighbour=b2")
    assert trace.lines() == ["     1.500001 b1           link-up neighbour=b2"]


def test_only_the_last_lines_are_kept_but_all_are_counted() -> None:
    trace = filled(2_000)
    assert len(trace.lines()) == 3
    assert trace.events == 2_000


def test_all_lines_are_written_to_an_output() -> None:
    output = StringIO()
    trace = Trace(lines_max=1, output=output)
    trace.note(1, "a", "x")
    trace.note(2, "b", "y")
    assert output.getvalue() == "     0.000001 a            x\n     0.000002 b            y\n"


def test_equal_events_have_equal_digests_and_a_single_change_another_one() -> None:
    assert filled(2_000).digest() == filled(2_000).digest()
    assert filled(2_000).digest() != filled(2_000, last="Happens").digest()
    assert filled(2_000).digest() != filled(1_999).digest()


def test_asking_for_the_digest_does_not_change_it() -> None:
    asked, plain = Trace(), Trace()
    for number in range(1_000):
        asked.note(number, "a", "x")
        plain.note(number, "a", "x")
        asked.digest()
    assert asked.digest() == plain.digest()
