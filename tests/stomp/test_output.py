"""Frames in their order, and fan-outs that are spelled out as far as they are written."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.stomp.output import Output
from strategies import tries

frames = st.one_of(
    st.binary(min_size=1, max_size=20),
    st.tuples(st.lists(st.binary(min_size=1, max_size=5), min_size=1, max_size=9), st.binary(min_size=1, max_size=20)),
)


@settings(max_examples=tries(500))
@given(st.lists(frames, max_size=6), st.lists(st.integers(1, 60)))
def test_all_comes_out_in_order_however_much_is_taken_at_a_time(
    wanted: list[bytes | tuple[list[bytes], bytes]], sizes: list[int]
) -> None:
    output = Output()
    expected = b""
    for each in wanted:
        if isinstance(each, bytes):
            output.add(each)
            expected += each
        else:
            heads, rest = each
            output.add_fan(heads, rest)
            expected += b"".join(head + rest for head in heads)
    found = b""
    assert bool(output) == bool(output.size)
    for size in (*sizes, *[1] * len(expected)):
        if not output:
            break
        data = output.take(size)
        assert data
        found += data
    assert found == expected
    assert not output
    assert output.take(10) == b""
    assert output.size == 0


def test_about_as_much_is_taken_as_was_asked_for() -> None:
    output = Output()
    output.add_fan([b"head"] * 1_000, b"x" * 96)
    assert len(output.take(1_000)) == 1_000
    assert output
    assert len(output.take(10**6)) == 99_000


def test_a_fan_out_takes_little_more_than_one_frame() -> None:
    output = Output()
    output.add_fan([b"head"] * 1_000, b"x" * 10_000)
    assert 10_000 < output.size < 20_000
    output.take(10**6)
    assert 10_000 < output.size < 20_000


def test_what_is_dropped_does_not_come() -> None:
    output = Output()
    output.add(b"x")
    output.clear()
    assert not output
    assert output.size == 0
    assert output.take(10) == b""
