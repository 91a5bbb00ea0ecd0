from __future__ import annotations

import gc
import math
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from penstock.model.message_id import MessageId
from penstock.pipeline.source.columns import STANDARD, Columns
from penstock.pipeline.source.decoding import Decoder, attribute_maps, halves_of, published_at, text_of, texts
from penstock.pipeline.source.errors import SourceError
from pipeline.source.support import T0, T0_MS, body, columns


def everything() -> Columns:
    schema = StructType()
    for name, kind in STANDARD.items():
        schema.add(name, kind)
    return Columns(schema.add("volume", "long"))


ids = st.builds(
    MessageId,
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**48 - 1),
    st.integers(0, 2**16 - 1),
)
numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(), st.sampled_from([0.0, -0.0, 1, 1.0, True, False]))
messages = st.dictionaries(st.text(max_size=3), st.one_of(numbers, st.none(), st.text(max_size=5)), max_size=4)

BODIES = [
    body({"symbol": "YHOO", "volume": 100}, b"18.2"),
    body({}, b"", counter=1, kind="text/plain"),
    body({"volume": None}, b"\x00\xff", counter=2, kind="x"),
]


def test_a_batch_has_all_that_was_published() -> None:
    batch = Decoder("pb1.a", everything(), "null").batch([T0, T0 + 1, T0 + 5], BODIES)
    batch.validate(full=True)
    ids = [MessageId(7, 1, T0_MS, counter) for counter in range(3)]
    assert batch.to_pydict() == {
        "message_id": [str(each) for each in ids],
        "pubend": ["pb1.a"] * 3,
        "tick": [T0, T0 + 1, T0 + 5],
        "published_at": [datetime.fromtimestamp(T0_MS / 1000, UTC)] * 3,
        "attributes": [[("symbol", "YHOO"), ("volume", "100")], [], [("volume", None)]],
        "payload": [b"18.2", b"", b"\x00\xff"],
        "volume": [100, None, None],
    }


def test_types_and_order_are_exactly_those_that_spark_expects() -> None:
    wanted = columns(volume="bigint", payload="binary", symbol="string", tick="bigint")
    batch = Decoder("pb1.a", wanted, "null").batch([T0], BODIES[:1])
    assert batch.schema.equals(to_arrow_schema(wanted.schema, timezone="UTC"))
    assert batch.to_pydict() == {"volume": [100], "payload": [b"18.2"], "symbol": ["YHOO"], "tick": [T0]}
    assert (
        Decoder("a", everything(), "null")
        .batch([T0], BODIES[:1])
        .schema.equals(to_arrow_schema(everything().schema, timezone="UTC"))
    )


@pytest.mark.parametrize("is_on", [True, False])
def test_the_collector_is_left_as_it_was(is_on: bool) -> None:
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        Decoder("a", everything(), "null").batch([T0], BODIES[:1])
        with pytest.raises(SourceError):
            Decoder("a", everything(), "null").batch([T0], [b""])
        assert gc.isenabled() == is_on
    finally:
        (gc.enable if was_on else gc.disable)()


def test_a_declared_standard_column_may_be_not_null() -> None:
    wanted = Columns(StructType().add("message_id", "string", nullable=False).add("pubend", "string"))
    batch = Decoder("a", wanted, "null").batch([T0], BODIES[:1])
    assert batch.schema.equals(to_arrow_schema(wanted.schema, timezone="UTC"))


def test_a_value_that_must_fit_is_named_with_its_message() -> None:
    decoder = Decoder("pb1.a", columns(symbol="bigint"), "fail")
    with pytest.raises(SourceError) as caught:
        decoder.batch([T0, T0 + 3], [BODIES[1], BODIES[0]])
    where = f"message {MessageId(7, 1, T0_MS, 0)} (pubend pb1.a, tick {T0 + 3})"
    assert str(caught.value) == f"'YHOO' of {where} does not fit column 'symbol' of bigint"


def test_a_long_value_is_shown_in_part() -> None:
    with pytest.raises(SourceError, match=r"'x{59}… of message"):
        Decoder("a", columns(s="bigint"), "fail").batch([T0], [body({"s": "x" * 5_000})])


@pytest.mark.parametrize("broken", [b"", b"short", BODIES[0][:20]])
@pytest.mark.parametrize("wanted", [columns(message_id="string"), columns(tick="bigint"), everything()])
def test_a_body_that_is_too_short_is_reported(broken: bytes, wanted: Columns) -> None:
    with pytest.raises(SourceError, match=r"the log of pubend a from .* has a message that cannot be decoded"):
        Decoder("a", wanted, "null").batch([T0, T0 + 1], [BODIES[0], broken])


@pytest.mark.parametrize("broken", [BODIES[0][:30], BODIES[0][:16] + b"\xff" * 10])
@pytest.mark.parametrize(
    "wanted", [columns(attributes="map<string,string>"), columns(payload="binary"), columns(volume="bigint")]
)
def test_a_body_whose_parts_do_not_fit_is_reported(broken: bytes, wanted: Columns) -> None:
    with pytest.raises(SourceError, match="cannot be decoded"):
        Decoder("a", wanted, "null").batch([T0], [broken])


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


@given(st.lists(messages, max_size=8))
def test_maps_have_the_text_of_every_value_in_order(found: list[dict[str, object]]) -> None:
    column = attribute_maps([msgspec.msgpack.encode(each) for each in found])
    column.validate(full=True)
    assert column.to_pylist() == [[(name, plain(value)) for name, value in each.items()] for each in found]


def plain(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else repr(value)


def test_numbers_that_are_equal_keep_their_own_texts() -> None:
    assert [text_of(each) for each in (1, 1.0, True, 0.0, -0.0, 0, False)] == [
        "1",
        "1.0",
        "true",
        "0.0",
        "-0.0",
        "0",
        "false",
    ]
    assert text_of(math.nan) == "nan"
    assert text_of(18.2) is text_of(18.2)


def test_the_types_of_maps_are_those_that_spark_expects() -> None:
    assert str(attribute_maps([]).type) == "map<string, string ('value')>" or str(attribute_maps([]).type).startswith(
        "map<string, string"
    )
    assert not attribute_maps([]).type.key_field.nullable
    assert attribute_maps([]).type.item_field.nullable
