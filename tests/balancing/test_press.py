"""Bit vectors: the worked example of the paper, and the same answers as plain counting gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.balancing.press import Press
from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue
from penstock.selectors.selector import Selector

PUBLICATIONS: tuple[dict[str, AttributeValue], ...] = (
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
)
CANDIDATES = {
    "class = 'STOCK'": "110111",
    "class = 'STOCK' AND volume > 15": "110100",
    "class = 'STOCK' AND volume > 150": "100000",
    "class = 'SPORTS'": "001000",
}
COVERING = ("class = 'STOCK' AND volume > 50", "class = 'STOCK' AND volume < 5", "class = 'MOVIES'")


def table_1() -> Press:
    press = Press(len(CANDIDATES), samples_max=6)
    candidates = [Selector.parse(text) for text in CANDIDATES]
    covering = [Selector.parse(text) for text in COVERING]
    for publication in PUBLICATIONS:
        matched = np.flatnonzero([each.matches(publication) for each in candidates])
        press.record(matched, is_covered=any(each.matches(publication) for each in covering))
    return press


def test_table_1_of_the_paper() -> None:
    press = table_1()
    assert press.is_full
    assert [press.text(column) for column in range(4)] == list(CANDIDATES.values())
    assert press.css_text() == "110001"
    assert press.rates(3.0).tolist() == [2.5, 1.5, 0.5, 0.5]
    # 110111 ANDNOT 110001 = 000110: two publications in six, so 1 msg/s of 3.
    assert press.added_rates(3.0)[0] == 1.0
    # Once it has moved, the partner gets all that it wants.
    assert press.added_rates(3.0, press.css | press.bits[:, 0]).tolist() == [0.0, 0.0, 0.0, 0.5]


def test_input_falls_by_what_nobody_else_wants() -> None:
    press = table_1()
    everybody = np.ones(4, np.bool_)
    # volume > 15 wants three of the five that class = 'STOCK' wants; only two are wanted by that alone.
    assert press.reduced_rates(6.0, everybody).tolist() == [2.0, 0.0, 0.0, 1.0]
    assert press.share_of(press.wanted(everybody)) == 1.0
    without = np.array([False, True, True, True])
    assert press.reduced_rates(6.0, without)[1] == 2.0
    assert press.reduced_rates(6.0, np.zeros(4, np.bool_)).tolist() == [0.0] * 4


def test_samples_beyond_the_last_change_nothing() -> None:
    press = table_1()
    press.record(np.array([0, 1, 2, 3]), is_covered=True)
    assert press.taken == 6
    assert press.css_text() == "110001"


def test_without_samples_everything_is_zero() -> None:
    press = Press(2, samples_max=50)
    assert press.rates(3.0).tolist() == [0.0, 0.0]
    assert press.share_of(press.css) == 0.0
    assert press.text(0) == ""
    with pytest.raises(MisuseError, match="0 samples"):
        Press(1, samples_max=0)


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.booleans()), max_size=150), st.data())
@settings(max_examples=60, deadline=None)
def test_answers_are_those_of_plain_counting(samples: list[tuple[set[int], bool]], data: st.DataObject) -> None:
    press = Press(6, samples_max=150)
    for columns, covered in samples:
        press.record(np.array(sorted(columns), np.int64), is_covered=covered)
    present = data.draw(st.lists(st.booleans(), min_size=6, max_size=6))
    here = {column for column in range(6) if present[column]}
    rates, added = press.rates(1.0), press.added_rates(1.0)
    reduced = press.reduced_rates(1.0, np.array(present, np.bool_))
    total = max(len(samples), 1)
    for column in range(6):
        mine = [(columns, covered) for columns, covered in samples if column in columns]
        assert rates[column] == len(mine) / total
        assert added[column] == sum(not covered for _, covered in mine) / total
        if column in here:
            assert reduced[column] == sum(columns & here == {column} for columns, _ in mine) / total
