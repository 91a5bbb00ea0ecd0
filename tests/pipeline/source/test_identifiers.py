from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from penstock.model.message_id import MessageId
from penstock.pipeline.source.identifiers import halves_of, published_at, texts

ids = st.builds(
    MessageId,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**48 - 1),
    st.integers(0, 2**16 - 1),
)


@given(st.lists(ids, max_size=20))
def test_texts_are_those_of_the_identifiers(found: list[MessageId]) -> None:
    halves = halves_of([each.to_bytes() + b"more" for each in found])
    assert texts(halves).to_pylist() == [str(each) for each in found]
    assert [tuple(map(int, each)) for each in halves] == [each.halves() for each in found]


def test_the_smallest_and_the_largest_identifier() -> None:
    for number in (MessageId(0, 0, 0, 0), MessageId(2**32 - 1, 2**32 - 1, 2**48 - 1, 2**16 - 1)):
        assert texts(halves_of([number.to_bytes()])).to_pylist() == [str(number)]


def test_times_are_the_publishers() -> None:
    found = published_at(halves_of([MessageId(9, 9, 1_763_200_000_123, 65_535).to_bytes()]))
    assert str(found.type) == "timestamp[us, tz=UTC]"
    assert found.to_pylist() == [datetime.fromtimestamp(1_763_200_000.123, UTC)]
