"""The limit on lines of one kind."""

from __future__ import annotations

from penstock.system.line_limit import LineLimit


class Watch:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_few_lines_are_written_in_a_period_and_the_next_one_says_how_many_were_left_out() -> None:
    watch = Watch()
    limit = LineLimit(lines_max=2, period_s=10.0, clock=watch)
    assert [limit.left_out("malformed") for _ in range(5)] == [0, 0, None, None, None]
    watch.now_s = 9.9
    assert limit.left_out("malformed") is None
    watch.now_s = 10.0
    assert [limit.left_out("malformed") for _ in range(3)] == [4, 0, None]


def test_each_kind_of_line_has_its_own_limit() -> None:
    limit = LineLimit(lines_max=1, clock=lambda: 0.0)
    assert [limit.left_out(kind) for kind in ("malformed", "full", "malformed", "full")] == [0, 0, None, None]
