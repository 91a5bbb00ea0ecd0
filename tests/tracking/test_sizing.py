from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.model.errors import MisuseError
from penstock.tracking.sizing import TABLE_2, FilterShape, choose_shape, efpp, fpp, fpp_for_efpp


def test_fpp_is_formula_1() -> None:
    assert fpp(65_536, 2_521, 16) == pytest.approx((1 - (1 - 1 / 65_536) ** (16 * 2_521)) ** 16)
    assert fpp(1_000, 0, 3) == 0
    assert (fpp(1, 0, 1), fpp(1, 5, 1)) == (0, 1)


def test_efpp_is_formula_2_and_has_an_inverse() -> None:
    assert efpp(0.01, 2) == pytest.approx(1 - 0.99**2)
    assert efpp(0.5, 0) == 0
    assert (efpp(1.0, 1), efpp(1.0, 0)) == (1, 0)
    assert fpp_for_efpp(0.00001, 2) == pytest.approx(5e-6, rel=1e-4)
    assert efpp(fpp_for_efpp(0.05, 3), 3) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("row", "accuracy", "bytes_per_message"),
    [
        ("64K-99.999", 0.99999, 3.25),
        ("64K-99", 0.99, 1.5),
        ("64K-95", 0.95, 1.125),
        ("1M-99.999", 0.99999, 3.375),
        ("1M-99", 0.99, 1.5),
        ("1M-95", 0.95, 1.0),
    ],
)
def test_the_rows_of_table_2_are_as_accurate_and_as_small_as_published(
    row: str, accuracy: float, bytes_per_message: float
) -> None:
    shape = TABLE_2[row]
    assert 1 - efpp(shape.fpp, 2) >= accuracy
    assert shape.bytes_per_key == pytest.approx(bytes_per_message, rel=0.02)


@given(
    asked=st.floats(1e-7, 0.5),
    size_bytes=st.integers(64, 200_000),
    matching=st.integers(1, 5),
    k_max=st.integers(1, 20),
)
def test_a_chosen_shape_keeps_to_what_is_asked_and_could_not_hold_more(
    asked: float, size_bytes: int, matching: int, k_max: int
) -> None:
    try:
        shape = choose_shape(asked, size_bytes_max=size_bytes, matching_set=matching, k_max=k_max)
    except MisuseError:
        assert fpp(8 << size_bytes.bit_length() - 1, 1, k_max) > fpp_for_efpp(asked, matching) * 0.99
        return
    assert shape.size_bytes <= size_bytes < 2 * shape.size_bytes
    assert shape.k <= k_max
    assert efpp(shape.fpp, matching) <= asked * (1 + 1e-9)
    one_more = [fpp(shape.m, shape.n + 2, k) for k in range(1, k_max + 1)]
    assert min(one_more) > fpp_for_efpp(asked, matching) * (1 - 1e-9)


def test_a_shape_for_the_paper_s_example_is_as_the_paper_s() -> None:
    # "we might choose m/n to be 26 and k to be 16"
    shape = choose_shape(0.00001, size_bytes_max=10_000)
    assert (shape.m, shape.k) == (65_536, 16)
    assert 25 < shape.m / shape.n <= 26


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((12, 1, 1), "m 12 is not a multiple of 8"),
        ((2**32, 1, 1), "m 4294967296"),
        ((8, 0, 1), "n 0 is not positive"),
        ((8, 1, 65), "k 65 is not in 1 .. 64"),
    ],
)
def test_shapes_that_cannot_be_are_refused(values: tuple[int, int, int], message: str) -> None:
    with pytest.raises(MisuseError, match=message):
        FilterShape(*values)


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(MisuseError, match="efpp 0 is not between"):
        choose_shape(0, size_bytes_max=100)
    with pytest.raises(MisuseError, match="matching set bound 0"):
        choose_shape(0.1, size_bytes_max=100, matching_set=0)
    with pytest.raises(MisuseError, match="0 bytes hold no filter"):
        choose_shape(0.1, size_bytes_max=0)
    with pytest.raises(MisuseError, match="holds not even one message"):
        choose_shape(1e-12, size_bytes_max=1)
