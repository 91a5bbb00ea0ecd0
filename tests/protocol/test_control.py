"""What all control frames have in common: numbers that are believed, and an array that starts with the tag."""

from __future__ import annotations

import msgspec
import pytest

from penstock.protocol.control import COUNT_MAX, Control, Count, PubendTick, Version


class Sample(Control, tag="sample", frozen=True, array_like=True):
    """Has one field of every kind of number."""

    count: Count
    version: Version = 0
    tick: PubendTick = 0


def test_a_frame_is_an_array_that_starts_with_its_tag() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(Sample(7, -1, 9))) == ["sample", 7, -1, 9]


def test_a_frame_does_not_change() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Sample(1).count = 2  # type: ignore[misc]


@pytest.mark.parametrize("values", [(0, -(2**31), 0), (COUNT_MAX, COUNT_MAX, COUNT_MAX)])
def test_numbers_at_their_bounds_are_believed(values: tuple[int, int, int]) -> None:
    frame = Sample(*values)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(frame), type=Sample) == frame


@pytest.mark.parametrize(
    "values",
    [
        (-1,),
        (COUNT_MAX + 1,),
        (2**63,),
        (0, -(2**31) - 1),
        (0, COUNT_MAX + 1),
        (0, 0, -1),
        (0, 0, COUNT_MAX + 1),
        (0.5,),
    ],
)
def test_numbers_near_the_end_of_64_bits_or_below_the_first_are_not_believed(values: tuple[int, ...]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.msgpack.decode(msgspec.msgpack.encode(["sample", *values]), type=Sample)
