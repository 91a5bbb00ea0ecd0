"""Frames there and back, in pieces of any size, and hostile bytes: a ProtocolError, never anything else."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.limits import BODY_BYTES_MAX, PAYLOAD_BYTES_MAX, PEER_NAME_CHARS_MAX
from penstock.model.names import PLAIN_NAME
from penstock.protocol import frames as f
from penstock.protocol.codec import FRAME_BYTES_MAX, FrameReader, decode_frame, encode_frame
from penstock.protocol.errors import ProtocolError
from strategies import tries

CONTROL, PUBLISH, FORWARD, DELIVER, KNOWLEDGE, HORIZONS, LOG, CARRY = range(8)
HEARTBEAT = f.Heartbeat(7)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
plain_names = st.from_regex(PLAIN_NAME, fullmatch=True).filter(str.isascii)
integers = st.one_of(st.integers(-2, 300), st.integers(-(2**63), 2**64 - 1))
unsigned = st.integers(0, 2**64 - 1)
ticks_in_range = st.integers(0, 2**62)
bodies = st.lists(st.binary(max_size=20), max_size=4)
BY_TYPE: dict[object, st.SearchStrategy[Any]] = {
    int: integers,
    str: texts,
    bytes: st.binary(max_size=20),
    tuple[str, ...]: st.lists(texts, max_size=4).map(tuple),
    bool: st.booleans(),
    float: st.floats(allow_nan=False),
}


def fields_of(kind: type[Any]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def control_frames(kind: type[Any]) -> st.SearchStrategy[f.ControlFrame]:
    return st.builds(kind, *(values_of(each) for each in fields_of(kind)))


def values_of(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    return texts.filter(str.isprintable) if field.name == "client" else field_values(field.type)


def field_values(kind: object) -> st.SearchStrategy[Any]:
    """What a field of this type can hold; numbers may have bounds, which are tried too."""
    if kind in BY_TYPE:
        return BY_TYPE[kind]
    if get_origin(kind) is Annotated and get_origin(get_args(kind)[0]) is tuple:
        return field_values(get_args(kind)[0])
    if get_origin(kind) is tuple:
        (inside, _) = get_args(kind)
        one = st.tuples(*map(field_values, get_args(inside))) if get_origin(inside) is tuple else field_values(inside)
        return st.lists(one, max_size=4).map(tuple)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return st.builds(kind, *map(values_of, fields_of(kind)))
    if get_origin(kind) is Literal:
        return st.sampled_from(get_args(kind))
    of, meta = get_args(kind)
    if of is bytes:
        return st.binary(min_size=meta.min_length or 0, max_size=meta.max_length)
    if of is str and meta.pattern:
        return st.from_regex(meta.pattern)
    if of is str:
        return st.one_of(texts, st.just("x" * meta.max_length))
    return st.one_of(st.sampled_from([meta.ge, meta.le]), st.integers(meta.ge, meta.le))


control = st.one_of([control_frames(kind) for kind in get_args(f.ControlFrame)])
# The number is that of the first message: the others follow.
publishes = st.builds(f.Publish, st.integers(0, 2**62 - 1_000), bodies, texts)
forwards = st.builds(
    lambda name, pairs: f.Forward(name, [tick for tick, _ in pairs], [body for _, body in pairs]),
    st.one_of(plain_names, plain_names.map("${}".format)),
    st.lists(st.tuples(ticks_in_range, st.binary(max_size=20)), max_size=4),
)
delivers = st.builds(
    lambda pubend, sent: f.Deliver(pubend, *([list(each) for each in zip(*sent, strict=True)] or [[], [], []])),
    st.integers(0, 2**16 - 1),
    st.lists(
        st.tuples(
            ticks_in_range,
            st.lists(st.integers(0, 2**32 - 1), max_size=4).map(lambda each: struct.pack(f">{len(each)}I", *each)),
            st.binary(max_size=20),
        ),
        max_size=4,
    ),
)
versions = st.lists(st.tuples(plain_names, st.integers(-(2**31), 2**62), st.integers(-(2**31), 2**62)), max_size=3).map(
    tuple
)


@st.composite
def knowledge(draw: st.DrawFn) -> f.KnowledgeMessage:
    first, *ticks, last = sorted(draw(st.sets(st.integers(0, 2**62 - 1), min_size=2, max_size=6)))
    return f.KnowledgeMessage(
        draw(plain_names),
        first,
        last,
        ticks,
        [draw(st.binary(max_size=20)) for _ in ticks],
        kind=draw(st.sampled_from(f.KnowledgeKind)),
        versions=draw(versions),
        is_whole=draw(st.booleans()),
    )


horizons = st.builds(
    lambda pubend, tick, present, numbers, is_only: f.Horizons(
        pubend, tick, struct.pack(f">{len(numbers)}I", *numbers), is_only=is_only, present=present
    ),
    st.integers(0, 2**16 - 1),
    ticks_in_range,
    ticks_in_range,
    st.lists(st.integers(0, 2**32 - 1), max_size=4),
    st.booleans(),
)


@st.composite
def log_answers(draw: st.DrawFn) -> f.LogAnswer:
    first, last = sorted(draw(st.tuples(ticks_in_range, ticks_in_range)))
    inside = st.integers(first, last)
    ticks = sorted(draw(st.sets(inside, max_size=4)))
    edges = sorted(draw(st.lists(inside, max_size=6)))
    return f.LogAnswer(
        draw(plain_names),
        draw(st.one_of(st.just(""), plain_names)),
        draw(unsigned),
        (first, last),
        ticks,
        [draw(st.binary(max_size=20)) for _ in ticks],
        tuple(zip(edges[::2], edges[1::2], strict=False)),
        is_compacted=draw(st.booleans()),
    )


carries = st.builds(
    lambda names, publisher, numbers, each, is_first, asks: f.Carry(
        names[0], names[1], publisher, names[2], numbers, each, is_first=is_first, asks=asks
    ),
    st.tuples(plain_names, plain_names, texts.filter(str.isprintable)),
    st.binary(max_size=32),
    st.builds(
        lambda number, after, gap: (number, after, after + gap),
        ticks_in_range,
        st.integers(0, 2**61),
        st.integers(1, 9),
    ),
    bodies,
    st.booleans(),
    st.booleans(),
)


@st.composite
def handings(draw: st.DrawFn) -> f.Handed:
    count = draw(st.integers(0, 4))
    numbers = st.lists(ticks_in_range, min_size=count, max_size=count)
    return f.Handed(
        draw(plain_names),
        draw(st.one_of(st.just(""), plain_names)),
        draw(st.binary(max_size=32)),
        draw(st.tuples(ticks_in_range, ticks_in_range, ticks_in_range, ticks_in_range)),
        draw(numbers),
        draw(numbers),
        [draw(st.binary(max_size=20)) for _ in range(count)],
    )


data_frames = st.one_of(publishes, carries, forwards, delivers, knowledge(), horizons, log_answers(), handings())
frames: st.SearchStrategy[f.Frame] = st.one_of(control, data_frames)


def content(frame: f.Frame) -> object:
    """What makes two frames the same."""
    match frame:
        case f.Publish():
            return "publish", frame.first, frame.bodies, frame.pubend, frame.size
        case f.Carry():
            who = (frame.pubend, frame.host, frame.publisher, frame.client)
            numbers = (frame.round, frame.after, frame.first)
            return "carry", who, numbers, frame.bodies, frame.is_first, frame.asks, frame.size
        case f.Forward():
            return "forward", frame.pubend, frame.ticks, frame.bodies, frame.size
        case f.Deliver():
            return "deliver", frame.pubend, frame.ticks, frame.numbers, frame.bodies, frame.size
        case f.KnowledgeMessage():
            said = (frame.kind, frame.first, frame.last, frame.ticks, frame.bodies)
            return "knowledge", frame.pubend, said, frame.versions, frame.is_whole, frame.size
        case f.Horizons():
            return "horizons", frame.pubend, frame.tick, frame.present, frame.numbers, frame.is_only, frame.size
        case f.Handed():
            counted = (frame.life, frame.series, frame.round, frame.sequence)
            messages = (frame.ticks, frame.attempts, frame.bodies)
            return "handed", frame.pubend, frame.host, frame.member, counted, messages, frame.size
        case f.LogAnswer():
            read = (frame.number, frame.first, frame.last, frame.ticks, frame.bodies)
            return "log", frame.pubend, frame.host, read, frame.lost, frame.is_compacted, frame.size
        case _:
            return frame


def contents(given_frames: list[f.Frame]) -> list[object]:
    return [content(frame) for frame in given_frames]


def framed(kind: int, inside: bytes) -> bytes:
    return struct.pack(">IB", len(inside) + 1, kind) + inside


def read(data: bytes, reader: FrameReader | None = None) -> tuple[list[f.Frame], ProtocolError | None]:
    """The frames up to the first that is none, and what is wrong with it; any other error comes out."""
    found: list[f.Frame] = []
    try:
        for frame in (reader or FrameReader()).feed(data):
            found.append(frame)
    except ProtocolError as error:
        return found, error
    return found, None


def check_that_it_is_refused(bad: bytes) -> None:
    """The frame before the bad one arrives, the one behind it does not."""
    found, error = read(encode_frame(HEARTBEAT) + bad + encode_frame(HEARTBEAT))
    assert found == [HEARTBEAT]
    assert error is not None


@pytest.mark.parametrize("kind", get_args(f.ControlFrame), ids=lambda kind: kind.__name__)
def test_every_control_frame_comes_back_as_it_was(kind: type[Any]) -> None:
    @settings(max_examples=60)
    @given(control_frames(kind))
    def check(frame: f.ControlFrame) -> None:
        found, error = read(encode_frame(frame))
        assert error is None
        assert found == [frame]
        assert type(found[0]) is kind

    check()


@settings(max_examples=tries(300))
@given(data_frames)
@example(f.Publish(2**62, [], ""))
@example(f.Carry("p", "sb", b"", "", (2**62, 2**62 - 1, 2**62), [], is_first=True))
@example(f.Carry("p", "sb", bytes(32), "feed", (0, 0, 1), [b"", b"x"], asks=True))
@example(f.Forward("p", [], []))
@example(f.Deliver(2**16 - 1, [2**62], [b""], [b""]))
@example(f.Deliver(2**16 - 1, [], [], []))
@example(f.KnowledgeMessage("p", 0, 0, [0], [b""]))
@example(f.KnowledgeMessage("p", 2**62 - 1, 2**62 - 1, [2**62 - 1], [b"x"]))
@example(f.LogAnswer("p", "", 0, (0, -1), [], []))
@example(f.LogAnswer("p", "sb", 2**64 - 1, (2**62, 2**62), [2**62], [b"x"], ((2**62, 2**62),)))
@example(f.LogAnswer("p", "sb", 1, (5, 4), [], []))
@example(f.LogAnswer("p", "sb", 1, (0, 9), [], [], ((0, 3), (4, 4), (9, 9))))
def test_every_data_frame_comes_back_as_it_was_and_is_encoded_once(frame: f.DataFrame) -> None:
    encoded = encode_frame(frame)
    assert encode_frame(frame) is encoded
    found, error = read(encoded)
    assert error is None
    assert contents(found) == [content(frame)]


LONG = "x" * (PEER_NAME_CHARS_MAX + 1)
ESCAPED = "\x1b[31msb"


def naming(name: str) -> list[f.Frame]:
    """Every frame between brokers, with something that is no name where a broker or a pubend is named."""
    return [
        f.LinkState(name, 1, 1, ()),
        f.LinkState("pb", 1, 1, (name,)),
        f.LinkState("pb", 1, 1, (), (name,)),
        f.LinkState("pb", 1, 1, (), (), (name,)),
        f.FilterUpdate(1, name, 1, 1, 0),
        f.FilterProbe(name, 1, 1, "pb.a"),
        f.FilterProbe("sb", 1, 1, name),
        f.FilterApplied(name, 1, 1, "pb.a", 1),
        f.Nack("pb.a", name, 1, 1, ()),
        f.Nack(name, "sb", 1, 1, ()),
        f.Positions("pb.a", ((name, 1, True),)),
        f.Positions("pb.a", (), (("d", 1, 1, name),)),
        f.StreamOpen("pb.a", name, 1, 1, "fail"),
        f.StreamOpened("pb.a", name, 1, 1),
        f.StreamTaken("pb.a", name, "d", 1),
        f.StreamForget("pb.a", name, 1, "d"),
        f.StreamForgotten("pb.a", name, 1, existed=True),
        f.LogRequest("pb.a", name, 1, 1, 1),
        f.LogSpan("pb.a", name, 1, 1, 1),
        f.Carried(name, "sb", b"me", 1, 1),
        f.Carried("pb.a", name, b"me", 1, 1),
        f.Carry(name, "sb", b"me", "feed", (1, 0, 1), []),
        f.Carry("pb.a", name, b"me", "feed", (1, 0, 1), []),
        f.Handed(name, "sb", b"me", (1, 1, 1, 1), [], [], []),
        f.CongestionQuery(name, 1, 1),
        f.CongestionAlert(name, 1, 0.0, 0.0),
        f.TraceQuestion(name, "sb", 1, bytes(16), ()),
        f.TraceQuestion("pb", name, 1, bytes(16), ()),
        f.TraceAnswer(name, 1, b""),
        f.Forward(name, [], []),
        f.Forward(f"${name}", [], []),
        f.KnowledgeMessage(name, 0, 0, [], []),
        f.KnowledgeMessage("p", 0, 0, [], [], versions=((name, 1, 1),)),
        f.LogAnswer(name, "", 0, (0, 1), [], []),
    ]


@pytest.mark.parametrize(
    "frame",
    [
        f.Hello(5, "client", LONG, "demo"),
        f.Hello(5, "client", "feed", "demo", credential="x" * 4_097),
        f.Hello(2**63, "client", "feed", "demo"),
        f.Welcome(5, "pb", "demo", 2**32, 1, 1, 1, 1),
        f.LinkState(LONG, 1, 1, ()),
        f.LinkState("pb", 1, 1, ("pb",) * 10_001),
        f.LinkState("pb", 1, 1, (), (LONG,)),
        f.FilterUpdate(1, "pb", 1, 1, 0, ("x" * 70_000,)),
        f.Subscribe(2**63, ""),
        f.Subscribe(1, "x" * 70_000),
        f.Subscribe(1, "", tuple((f"p{number}", 1) for number in range(10_001))),
        f.Subscribe(1, "", durable=LONG),
        f.Acknowledge(((1, 2**63),)),
        f.Nack("pb.a", "sb", 0, 0, tuple((2 * n, 2 * n) for n in range(2_001))),
        f.Positions("pb.a", ((LONG, 1, True),)),
        f.StreamOpen("pb.a", "sb", 1, 1, "fail", LONG),
        *(frame for name in (ESCAPED, "", "pb\n") for frame in naming(name)),
        f.StreamOpen("pb.a", "sb", 1, 1, "fail", ESCAPED),
        f.StreamForget("pb.a", "sb", 1, ESCAPED),
        f.FilterUpdate(1, "pb", 1, 1, 0, ("x",) * 10_001),
        f.FilterUpdate(1, "pb", 1, 1, 0, (), ("x",) * 10_001),
        f.Positions("pb.a", (), (("d", 1, 1, "sb"),) * 10_001),
        f.Lost(0, 1, 1, (1,) * 10_001),
        f.PubendNames(((1, "p"),) * 10_001),
        f.TraceAnswer("pb", 1, bytes(BODY_BYTES_MAX + 1)),
        f.KnowledgeMessage("p", 0, 0, [], [], versions=(("sb", 1, 1),) * 10_001),
        f.KnowledgeMessage("p", 0, 1, [0, 1], [bytes(BODY_BYTES_MAX // 2 + 1)] * 2),
        f.Refused("publish", 1, "x" * 5_000),
        f.Refused("publish", 1, "", 1, LONG),
        f.Rewind(-1, 1),
        f.Rewind(2**62 + 1, 1),
        f.Rewind(1, -1),
        f.Rewind(1, 1, LONG),
        f.Rewind(1, 1, "p", 2**62 + 1),
        f.Rewound(-1),
        f.Rewound(2**62 + 1),
        f.Rewound(1, LONG),
        f.PublishAck(1, 1, LONG),
        f.HeldBack("", 0, LONG),
        f.HeldBack("x" * 5_000),
        f.PubendPlaces(((LONG, "pb", True),)),
        f.PubendPlaces((("p", LONG, True),)),
        f.PubendPlaces((("p", "pb", True),) * 10_001),
        f.PubendPlaces((), (LONG,)),
        f.PubendPlaces((), ("p",) * 10_001),
        f.Welcome(8, "pb", "demo", 1, 1, 1, 1, 1, (), (), (("p", "pb", True),) * 10_001),
        f.Carried("p", "sb", bytes(33), 1, 1),
        f.Carried("p", "sb", b"me", -1, 1),
        f.Carried("p", "sb", b"me", 1, 2**62 + 1),
        f.Carried("p", "sb", b"me", 1, 1, "x" * 5_000),
        f.Carried("p", "sb", b"me", 1, 1, "", -1),
        f.Carry("p", "sb", b"me", "feed", (2**62 + 1, 0, 1), [b""]),
        f.Carry("p", "sb", b"me", "feed", (1, 0, 2**62), [b"", b""]),
        f.Carry("p", "sb", b"me", "feed", (1, 1, 1), [b""]),
        f.Publish(2**62, [b"", b""]),
        f.Carry("p", "sb", bytes(33), "feed", (1, 0, 1), [b""]),
        f.Carry("p", "sb", b"me", ESCAPED, (1, 0, 1), [b""]),
        f.Carry("p", "sb", b"me", LONG, (1, 0, 1), [b""]),
        f.Carry("p", "sb", b"me", "feed", (1, 0, 1), [bytes(BODY_BYTES_MAX + 1)]),
        f.Handed("p", "sb", bytes(33), (1, 1, 1, 1), [1], [1], [b""]),
        f.Handed("p", "sb", b"me", (2**62 + 1, 1, 1, 1), [1], [1], [b""]),
        f.Handed("p", "sb", b"me", (1, 1, 1, 2**62 + 1), [1], [1], [b""]),
        f.Handed("p", "sb", b"me", (1, 1, 1, 1), [2**62 + 1], [1], [b""]),
        f.Handed("p", "sb", b"me", (1, 1, 1, 1), [1], [2**62 + 1], [b""]),
        f.Handed("p", "sb", b"me", (1, 1, 1, 1), [1], [1], [bytes(BODY_BYTES_MAX + 1)]),
        f.Publish(2**62 + 1, [b""]),
        f.Publish(2**64 - 1, [b""]),
        f.Publish(1, [b""], "x" * 801),
        f.Publish(1, [bytes(BODY_BYTES_MAX + 1)]),
        f.Forward("p", [2**62 + 1], [b""]),
        f.Forward("p", [1], [bytes(BODY_BYTES_MAX + 1)]),
        f.Deliver(0, [2**62 + 1], [b""], [b""]),
        f.Horizons(0, 2**62 + 1),
        f.Horizons(0, 1, present=2**62 + 1),
        f.KnowledgeMessage("p", 0, 2**62, [], []),
        f.KnowledgeMessage("x" * 801, 0, 0, [], []),
        f.KnowledgeMessage("p", 0, 0, [], [], versions=((LONG, 1, 1),)),
        f.LogAnswer("x" * 801, "", 0, (0, 1), [], []),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_what_nobody_can_mean_is_a_protocol_error_wherever_it_stands(frame: f.Frame) -> None:
    found, error = read(encode_frame(frame))
    assert found == []
    assert error is not None


@pytest.mark.parametrize("frame", [f.StreamOpen("p", "sb", 1, 1, "fail"), f.StreamForget("p", "sb", 1, "d")])
def test_a_client_whose_name_would_be_a_command_is_a_protocol_error(frame: f.ControlFrame) -> None:
    inside = msgspec.to_builtins(msgspec.structs.replace(frame, client="feed"))
    bad = msgspec.msgpack.encode([ESCAPED if each == "feed" else each for each in inside])
    found, error = read(framed(CONTROL, bad))
    assert (found, error is None) == ([], False)


def test_the_largest_message_fits_every_frame_that_can_carry_one() -> None:
    body, name = bytes(BODY_BYTES_MAX), "p" * 100
    versions = tuple((f"{number:0100}", 2**62, 2**62) for number in range(1_000))
    for frame in (
        f.Publish(2**62, [body], "ü" * PEER_NAME_CHARS_MAX),
        f.Carry(
            name,
            name,
            bytes(32),
            "ü" * PEER_NAME_CHARS_MAX,
            (2**62, 2**61, 2**61 + 1),
            [body],
            is_first=True,
            asks=True,
        ),
        f.Forward(name, [2**62], [body]),
        f.Deliver(2**16 - 1, [2**62], [bytes(4 * 65_535)], [body]),
        f.KnowledgeMessage(name, 0, 2**62 - 1, [2**62 - 1], [body], versions=versions, is_whole=True),
        f.LogAnswer(name, name, 2**62, (0, 2**62), [2**62], [body], ((0, 1),) * 1),
    ):
        assert read(encode_frame(frame))[1] is None


@settings(max_examples=tries(300))
@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 400), max_size=12))
def test_a_stream_gives_the_same_frames_however_it_is_cut(sent: list[f.Frame], cuts: list[int]) -> None:
    data = b"".join(map(encode_frame, sent))
    reader = FrameReader()
    found: list[f.Frame] = []
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    for start, end in pairwise(places):
        found += reader.feed(data[start:end])
    assert contents(found) == contents(sent)


@given(st.lists(frames, min_size=1, max_size=3))
def test_a_stream_gives_the_same_frames_byte_by_byte(sent: list[f.Frame]) -> None:
    reader = FrameReader()
    found = [frame for byte in b"".join(map(encode_frame, sent)) for frame in reader.feed(bytes((byte,)))]
    assert contents(found) == contents(sent)


def test_a_frame_is_given_as_soon_as_it_is_complete_and_not_before() -> None:
    reader, data = FrameReader(), encode_frame(HEARTBEAT)
    assert list(reader.feed(data[:-1])) == []
    assert list(reader.feed(data[-1:] + data[:3])) == [HEARTBEAT]
    assert list(reader.feed(data[3:])) == [HEARTBEAT]


@settings(max_examples=tries(300))
@given(frames)
def test_data_that_is_one_batch_is_decoded_at_once_and_everything_else_left_to_the_stream(frame: f.Frame) -> None:
    reader, data = FrameReader(), encode_frame(frame)
    found = reader.only_batch(data)
    assert found is None or contents([found]) == contents([frame])
    assert (found is not None) == (isinstance(frame, f.Publish) and len(data) >= 27)
    assert contents(list(reader.feed(data))) == contents([frame]), "nothing was kept"


@settings(max_examples=tries(300))
@given(st.integers(0, 2**62), st.lists(st.binary(max_size=50), max_size=4), st.sampled_from(["", "a", "ü" * 20]))
def test_batches_of_any_size_are_decoded_at_once(first: int, bodies: list[bytes], pubend: str) -> None:
    batch = f.Publish(first, [bytes(20), *bodies], pubend)
    found = FrameReader().only_batch(encode_frame(batch))
    assert found is not None
    assert contents([found]) == contents([batch])


@settings(max_examples=tries(300))
@given(st.lists(st.binary(max_size=50), min_size=1, max_size=3), st.data())
def test_what_is_not_exactly_one_good_batch_is_left_to_the_stream(bodies: list[bytes], data: st.DataObject) -> None:
    good = encode_frame(f.Publish(1, bodies))
    assert FrameReader().only_batch(good[:-1]) is None
    assert FrameReader().only_batch(good + b"x") is None
    reader = FrameReader()
    assert list(reader.feed(good[:3])) == []
    assert reader.only_batch(good) is None, "the beginning of another frame waits"
    place = data.draw(st.integers(0, len(good) - 1))
    changed = good[:place] + bytes((good[place] ^ 0x55,)) + good[place + 1 :]
    found = FrameReader().only_batch(changed)
    if found is not None:
        assert contents([found]) == contents(list(FrameReader().feed(changed)))


def test_a_batch_over_the_limit_of_its_reader_is_left_to_the_stream() -> None:
    data = encode_frame(f.Publish(1, [bytes(1_000)]))
    assert FrameReader(500).only_batch(data) is None
    with pytest.raises(ProtocolError):
        list(FrameReader(500).feed(data))


@pytest.mark.parametrize("count", [1, 2])
def test_a_message_number_over_the_limit_is_left_to_the_stream(count: int) -> None:
    data = bytearray(encode_frame(f.Publish(1, [bytes(100)] * count)))
    data[5:13] = (2**62 + 1).to_bytes(8)
    assert FrameReader().only_batch(bytes(data)) is None


def test_frames_that_a_reader_was_not_asked_for_are_kept() -> None:
    reader, data = FrameReader(), encode_frame(f.Heartbeat(1)) + encode_frame(f.Heartbeat(2))
    for frame in reader.feed(data):
        assert frame == f.Heartbeat(1)
        break
    assert list(reader.feed(b"")) == [f.Heartbeat(2)]


@settings(max_examples=tries(1000))
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    read(data)


@settings(max_examples=tries(1500))
@given(st.integers(0, 9), st.binary(max_size=60))
def test_arbitrary_content_is_a_frame_or_a_protocol_error(kind: int, inside: bytes) -> None:
    found, error = read(framed(kind, inside))
    assert (len(found) == 1) == (error is None)


@settings(max_examples=tries(1000))
@given(frames, st.data())
def test_a_frame_with_changed_bytes_is_a_frame_or_a_protocol_error(frame: f.Frame, data: st.DataObject) -> None:
    changed = bytearray(encode_frame(frame)[5:])
    for _ in range(data.draw(st.integers(1, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    found, error = read(encode_frame(HEARTBEAT) + framed(encode_frame(frame)[4], bytes(changed)))
    assert found[0] == HEARTBEAT
    assert (len(found) == 2) == (error is None)


@given(st.one_of(control, publishes, carries, forwards, knowledge(), log_answers()), st.data())
def test_a_frame_that_lost_its_end_is_a_protocol_error(frame: f.Frame, data: st.DataObject) -> None:
    encoded = encode_frame(frame)
    check_that_it_is_refused(framed(encoded[4], encoded[5 : data.draw(st.integers(5, len(encoded) - 1))]))


@given(st.one_of(control, publishes, carries, forwards, knowledge(), log_answers()), st.binary(min_size=1, max_size=9))
def test_a_frame_with_something_behind_its_end_is_a_protocol_error(frame: f.Frame, more: bytes) -> None:
    encoded = encode_frame(frame)
    check_that_it_is_refused(framed(encoded[4], encoded[5:] + more))


@pytest.mark.parametrize("length", [0, FRAME_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_out_of_range_is_noticed_before_the_frame_is_there(length: int) -> None:
    found, error = read(encode_frame(HEARTBEAT) + struct.pack(">I", length))
    assert found == [HEARTBEAT]
    assert str(error) == f"frame of {length} bytes is not in 1 .. {FRAME_BYTES_MAX}"


def test_a_reader_has_the_limit_that_it_was_given() -> None:
    data = encode_frame(HEARTBEAT)
    assert read(data, FrameReader(len(data) - 4)) == ([HEARTBEAT], None)
    assert read(data, FrameReader(len(data) - 5))[0] == []


def test_the_largest_frame_is_read_and_holds_the_largest_payload() -> None:
    largest = f.Deliver(1, [2], [b""], [bytes(FRAME_BYTES_MAX - 21)])
    found, error = read(encode_frame(largest))
    assert error is None
    assert contents(found) == [content(largest)]
    assert len(largest.bodies[0]) > PAYLOAD_BYTES_MAX
    assert read(encode_frame(f.Deliver(1, [2], [b""], [bytes(FRAME_BYTES_MAX - 20)])))[1] is not None


def test_a_reader_that_met_a_bad_frame_does_not_go_on_behind_it() -> None:
    reader = FrameReader()
    assert read(framed(9, b""), reader)[1] is not None
    assert read(encode_frame(HEARTBEAT), reader)[0] == []


@pytest.mark.parametrize("kind", [9, 10, 255])
def test_an_unknown_kind_is_a_protocol_error(kind: int) -> None:
    with pytest.raises(ProtocolError, match=rf"^unknown kind of frame {kind}$"):
        decode_frame(kind, memoryview(b""))


HUGE = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "inside"),
    [
        (PUBLISH, struct.pack(">QHI", 1, 0, 2**32 - 1)),
        (PUBLISH, struct.pack(">QHI", 1, 0, 2) + struct.pack(">I", 1) + b"x"),
        (PUBLISH, struct.pack(">QHI", 1, 0, 0) + struct.pack(">I", 1) + b"x"),
        (PUBLISH, struct.pack(">QHI", 1, 0, 1) + HUGE + b"x"),
        (PUBLISH, struct.pack(">QHI", 1, 65_535, 0) + b"x"),
        (PUBLISH, struct.pack(">QHI", 1, 1, 0) + b"\xff"),
        (FORWARD, struct.pack(">HI", 0, 2**32 - 1)),
        (FORWARD, struct.pack(">HI", 0, 2**32 - 1) + bytes(100_000)),
        (FORWARD, struct.pack(">HIQ", 0, 1, 1) + HUGE),
        (FORWARD, struct.pack(">HIQQ", 0, 1, 1, 2) + struct.pack(">I", 0)),
        (FORWARD, struct.pack(">HI", 65_535, 0) + b"x"),
        (FORWARD, struct.pack(">HI", 2, 0) + b"\xed\xa0"),
        (DELIVER, struct.pack(">HQH", 0, 1, 65_535)),
        (DELIVER, struct.pack(">HQH", 0, 1, 1) + b"xyz"),
        (KNOWLEDGE, struct.pack(">BQQHII", 3, 1, 2, 0, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHII", 16, 1, 2, 0, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 3, 2, 0, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2**62 + 1, 0, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2, 0, 0, 2**32 - 1)),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2, 0, 2**32 - 1, 0)),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2, 65_535, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHIIQI", 0, 1, 2, 0, 0, 1, 3, 0)),
        (KNOWLEDGE, struct.pack(">BQQHIIQI", 0, 1, 2, 0, 0, 1, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHIIQQII", 0, 1, 5, 0, 0, 2, 3, 2, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHIIQQII", 0, 1, 5, 0, 0, 2, 3, 3, 0, 0)),
        (KNOWLEDGE, struct.pack(">BQQHIIQ", 0, 1, 5, 0, 0, 1, 3) + HUGE),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2, 0, 1, 0) + b"\xc0"),
        (KNOWLEDGE, struct.pack(">BQQHII", 0, 1, 2, 0, 5, 0) + b"\xdd" + HUGE),
        (HORIZONS, struct.pack(">HQQB", 0, 1, 1, 0) + b"xyz"),
        (HORIZONS, struct.pack(">HQQB", 0, 1, 1, 2)),
        (HORIZONS, struct.pack(">HQQ", 0, 1, 1)),
        (LOG, struct.pack(">QQQHHI", 1, 1, 3, 0, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 0, 0, 0, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 2**62 + 2, 2**62 + 2, 0, 0, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 2**64 - 1, 2**64 - 1, 0, 0, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 65_535, 0, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 65_535, 0, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 0, 2**32 - 1, 0)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 0, 0, 2**32 - 1)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 0, 2**32 - 1, 2**32 - 1) + bytes(100_000)),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 1, 0, 0, 0) + b"\xff"),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 2, 0, 0) + b"\xed\xa0"),
        (LOG, struct.pack(">QQQHHII", 1, 1, 3, 0, 0, 0, 0) + b"x"),
        (LOG, struct.pack(">QQQHHIIQ", 1, 1, 3, 0, 0, 0, 1, 1) + HUGE),
        (LOG, struct.pack(">QQQHHIIQI", 1, 1, 3, 0, 0, 0, 1, 0, 0)),
        (LOG, struct.pack(">QQQHHIIQI", 1, 1, 3, 0, 0, 0, 1, 3, 0)),
        (LOG, struct.pack(">QQQHHIIQI", 1, 1, 1, 0, 0, 0, 1, 1, 0)),
        (LOG, struct.pack(">QQQHHIIQQII", 1, 1, 9, 0, 0, 0, 2, 3, 3, 0, 0)),
        (LOG, struct.pack(">QQQHHIIQQII", 1, 1, 9, 0, 0, 0, 2, 4, 3, 0, 0)),
        (LOG, struct.pack(">QQQHHIIQQ", 1, 1, 9, 0, 0, 1, 0, 0, 3)),
        (LOG, struct.pack(">QQQHHIIQQ", 1, 1, 9, 0, 0, 1, 0, 3, 9)),
        (LOG, struct.pack(">QQQHHIIQQ", 1, 1, 9, 0, 0, 1, 0, 4, 3)),
        (LOG, struct.pack(">QQQHHIIQQQQ", 1, 1, 9, 0, 0, 2, 0, 4, 5, 3, 6)),
        (CARRY, struct.pack(">QQBHHBH", 1, 1, 0, 1, 1, 0, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 4, 1, 1, 0, 0, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 0, 2**32 - 1) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 0, 1) + b"pb" + HUGE),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 0, 0) + b"pb" + struct.pack(">I", 1) + b"x"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 0, 1, 0, 0, 0) + b"b"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 0, 0, 0, 0) + b"p"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 65_535, 1, 0, 0, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 65_535, 0, 0, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 255, 0, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 65_535, 0) + b"pb"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 1, 0) + b"pb\xff"),
        (CARRY, struct.pack(">QQBHHBHI", 1, 1, 0, 1, 1, 0, 2, 0) + b"pb\xed\xa0"),
        (CONTROL, b"\xdd" + HUGE),
        (CONTROL, b"\xdf" + HUGE),
        (CONTROL, b"\xdb" + HUGE),
        (CONTROL, b"\xc6" + HUGE),
        (CONTROL, b"\x92\xa7pubends\xdd" + HUGE),
        (CONTROL, b"\x95\xa9linkstate\xa1a\x01\x01\xdd" + HUGE),
        (CONTROL, b"\x93\xa9mechanism\xa1a\xc6" + HUGE),
        (CONTROL, b"\x93\xa7goodbye\xa1a\xa1\xff"),
        (CONTROL, b"\x93\xa7goodbye\xa1a\xa3\xed\xa0\x80"),
        (CONTROL, b"\x92\xa9filterack\xcb" + struct.pack(">d", float("inf"))),
        (CONTROL, b"\x92\xa9filterack\xc3"),
        (CONTROL, b"\x92\xa9filterack\xff"),
        (CONTROL, b"\x92\xa9filterack\xcf" + bytes((255,)) * 8),
        (CONTROL, b"\x95\xa9linkstate\xa1a\xcf" + bytes((255,)) * 8 + b"\x01\x90"),
        (CONTROL, b"\x91\xa9filterack"),
        (CONTROL, b"\x92\xa7nothing\x01"),
        (CONTROL, b"\x91" * 100_000),
        (CONTROL, b"\x92\xa7pubends" + b"\x91" * 100_000),
        (CONTROL, b"\x81\xa1a\x01"),
        (CONTROL, b"\xd6\xff\x00\x00\x00\x00"),
        (CONTROL, b""),
    ],
)
def test_wrong_and_huge_counts_and_wrong_types_are_protocol_errors(kind: int, inside: bytes) -> None:
    check_that_it_is_refused(framed(kind, inside))


@pytest.mark.parametrize("level", [b"\x91", b"\x81\xa1a"], ids=["arrays", "maps"])
def test_extra_fields_that_are_nested_deeply_are_a_protocol_error(level: bytes) -> None:
    examples = {int: b"\x00", str: b"\xa0", bytes: b"\xc4\x00", bool: b"\xc2"}
    for kind in get_args(f.ControlFrame):
        types = [
            get_args(each.type)[0] if get_origin(each.type) is Annotated else each.type for each in fields_of(kind)
        ]
        fields = [examples.get(each, b"\x90") for each in types]
        start = struct.pack(">BH", 0xDC, len(fields) + 2) + msgspec.msgpack.encode(kind.__struct_config__.tag)
        check_that_it_is_refused(framed(CONTROL, start + b"".join(fields) + level * 50_000 + b"\xc0"))


def test_fields_that_a_later_version_may_add_are_ignored() -> None:
    found, error = read(framed(CONTROL, msgspec.msgpack.encode(["filterack", 3, "new", [1]])))
    assert error is None
    assert found == [f.FilterAck(3)]


def test_fields_with_a_default_may_be_left_out() -> None:
    found, _ = read(framed(CONTROL, msgspec.msgpack.encode(["subscribed", 3, "TRUE"])))
    assert found == [f.Subscribed(3, "TRUE", ())]
