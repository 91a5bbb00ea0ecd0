"""Messages as MESSAGE frames: what was sent by STOMP comes back exactly, and native messages as well as can be."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.stomp import SERVER_COMMANDS, StompFrame, StompReader, Version, encode
from penstock.stomp.messages import outgoing
from penstock.stomp.rendering import Rendering
from stomp_stage import V1_0, V1_1, V1_2
from strategies import tries

ID = MessageId(7, 1, 1_700_000_000_000, 3)
TICK = 5 << 16
names = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp", "Co", "Cf", "Zs")), min_size=1)
sent_names = st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Cn", "Zl", "Zp", "Co", "Cf", "Zs"), include_characters="\n\\"),
    min_size=1,
)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
numbers = st.one_of(st.integers().map(str), st.floats().map(repr), st.sampled_from(["true", "false", "", "\r", "x\r"]))
OWN = ("destination", "content-length", "content-type", "expires", "transaction", "receipt", "persistent", "ack")
OTHERS = ("message-id", "redelivered", "subscription", "timestamp")


def shown(body: bytes, version: Version = V1_2, *, tick: int = TICK, is_guaranteed: bool = True) -> StompFrame:
    return read(Rendering().at(version).render(body, "p", tick, is_guaranteed=is_guaranteed).rest, version)


def read(rest: bytes, version: Version, head: bytes = b"MESSAGE\n") -> StompFrame:
    reader = StompReader(commands=SERVER_COMMANDS)
    reader.version = version
    (frame,) = reader.feed(head + rest)
    return frame


def native(attributes: dict[str, AttributeValue], payload: bytes = b"", content_type: str = "") -> bytes:
    return encode_body(ID, Message(attributes, payload, content_type))


@settings(max_examples=tries(500))
@given(
    st.dictionaries(sent_names, st.one_of(texts, numbers), max_size=6),
    st.binary(max_size=20),
    st.sampled_from([V1_1, V1_2]),
    st.sampled_from(["infer", "string"]),
)
@example({"n": "\r"}, b"", V1_1, "infer")
@example({"n": "x\r"}, b"\0", V1_1, "infer")
@example({"n": "x\r\n"}, b"\0", V1_2, "string")
@example({"n": "-inf", "m": "-0.0"}, b"", V1_2, "infer")
@example({"a:b": "c:d", "e\\": "\\n"}, b"", V1_2, "infer")
@example({"a\n": "1", "a\\n": "2", "\n\\": "3", "a\r": "4"}, b"", V1_2, "infer")
def test_what_is_sent_by_stomp_comes_back_exactly(
    headers: dict[str, str], body: bytes, version: Version, types: str
) -> None:
    wanted = {
        name: value
        for name, value in headers.items()
        if name not in (*OWN, *OTHERS) and name[0] != "$" and not name.startswith("penstock-") and ";type=" not in name
    }
    reader = StompReader()
    reader.version = version
    sent = StompFrame("SEND", {"destination": "/topic/x"} | wanted, body)
    (heard,) = reader.feed(encode(sent, version))
    found = shown(ID.to_bytes() + outgoing(heard, types=types, wall_ms=0).content, version)
    assert {name: found.headers[name] for name in wanted} == wanted
    assert found.headers["destination"] == "/topic/x"
    assert found.body == body
    own = {"message-id", "destination", "content-length", "timestamp", "persistent"}
    assert {name for name in found.headers if not name.startswith("penstock-")} == own | {*wanted}


@settings(max_examples=tries(300))
@given(
    st.dictionaries(
        st.one_of(names, st.sampled_from([*OWN, *OTHERS, "penstock-tick", "a b", " a", "a ", "a:b", ":", " "])).filter(
            lambda name: name[0] != "$"
        ),
        st.one_of(
            st.text(st.characters(codec="utf-8"), max_size=10),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(),
            st.booleans(),
            st.none(),
        ),
        max_size=6,
    ),
    st.binary(max_size=10),
    st.sampled_from([*Version]),
)
def test_every_native_message_can_be_told_in_every_version(
    attributes: dict[str, AttributeValue], payload: bytes, version: Version
) -> None:
    frame = shown(native(attributes, payload), version)
    assert frame.body == payload
    assert frame.headers["message-id"] == str(ID)
    assert frame.headers["content-length"] == str(len(payload))
    assert frame.headers["penstock-pubend"] == "p"
    assert frame.headers["penstock-tick"] == str(TICK)
    assert not {"subscription", "ack", "redelivered", "receipt", "transaction", "content-type"} & {*frame.headers}


def test_numbers_and_booleans_of_native_messages_are_texts_and_null_is_absent() -> None:
    headers = shown(native({"n": 5, "x": 1.5, "yes": True, "no": False, "nothing": None, "text": "a b"})).headers
    assert [headers.get(name) for name in ("n", "x", "yes", "no", "nothing", "text")] == [
        "5",
        "1.5",
        "true",
        "false",
        None,
        "a b",
    ]


def test_attributes_with_names_of_stomp_do_not_pass_for_its_headers() -> None:
    faked: dict[str, AttributeValue] = dict.fromkeys((*OWN[1:], *OTHERS, "penstock-tick", "penstock-pubend"), "fake")
    assert "fake" not in shown(native(faked)).headers.values()
    assert "fake" not in shown(native(faked), is_guaranteed=False).headers.values()


def test_an_attribute_destination_that_is_no_text_is_no_destination() -> None:
    rendered = Rendering().at(V1_2).render(native({"destination": 5}), "p", 1, is_guaranteed=True)
    assert not rendered.has_destination
    assert "destination" not in read(rendered.rest, V1_2).headers


def test_a_content_type_comes_along() -> None:
    assert shown(native({}, b"{}", content_type="application/json")).headers["content-type"] == "application/json"


def test_what_expires_says_when() -> None:
    body = encode_body(ID, Message({}, expires=30))
    assert shown(body).headers["expires"] == str(ID.timestamp_ms + 30_000)


def test_what_is_not_kept_has_no_position() -> None:
    headers = shown(native({}), is_guaranteed=False).headers
    assert not {"persistent", "penstock-tick"} & {*headers}


def test_system_attributes_are_not_shown() -> None:
    body = encode_body(ID, Message.system({"$request": "x", "n": 1}))
    assert [name for name in shown(body).headers if name.startswith("$")] == []


def test_1_0_gets_blanks_for_what_it_cannot_express() -> None:
    headers = shown(native({"a:b": "c\nd\re", "n": "\0"}), V1_0).headers
    assert headers["a_b"] == "c d e"
    assert headers["n"] == "\ufffd"


def test_the_same_message_from_two_places_is_told_with_its_place() -> None:
    rendering = Rendering()
    body = native({"n": 1})
    told = [
        read(rendering.at(V1_2).render(body, pubend, tick, is_guaranteed=True).rest, V1_2).headers
        for pubend, tick in (("p", 1), ("q", 1), ("p", 2))
    ]
    assert [(each["penstock-pubend"], each["penstock-tick"]) for each in told] == [("p", "1"), ("q", "1"), ("p", "2")]


def test_a_message_is_rendered_once_for_all() -> None:
    rendering = Rendering()
    body = native({"n": 1})
    first, second = (rendering.at(V1_2).render(body, "p", 1, is_guaranteed=True) for _ in range(2))
    assert first is second
    assert rendering.at(V1_1).render(body, "p", 1, is_guaranteed=True) is not first


@pytest.mark.parametrize("version", [*Version])
def test_a_content_type_that_no_broker_should_have_let_pass_does_no_harm(version: Version) -> None:
    body = native({}, b"x", content_type="text/plain").replace(b"text/plain", b"a\0b\nc:d\r..")
    assert shown(body, version).body == b"x"


@settings(max_examples=tries(300))
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**48 - 1), st.integers(0, 2**16 - 1))
@example(1, 1, 1_700_000_000_000, 0)
@example(1, 1, 1_700_000_000_000, 2**15 - 1)
@example(1, 1, 1_700_000_000_000, 2**15)
@example(1, 1, 1_700_000_000_000, 2**16 - 1)
def test_a_message_has_its_identifier_and_its_time(publisher: int, broker: int, time_ms: int, counter: int) -> None:
    identifier = MessageId(publisher, broker, time_ms, counter)
    found = shown(encode_body(identifier, Message({})))
    assert found.headers["message-id"] == str(identifier)
    assert found.headers["timestamp"] == str(time_ms)


def test_each_message_is_rendered_as_itself_however_many_there_are() -> None:
    rendering = Rendering()
    bodies = [native({"n": number}, bytes(10_000)) for number in range(1_000)]
    for _ in range(2):
        for number, body in enumerate(bodies):
            found = rendering.at(V1_2).render(body, "p", TICK, is_guaranteed=True)
            assert read(found.rest, V1_2).headers["n"] == str(number)


@pytest.mark.parametrize("name", ["content-length\n", "\nack", " message-id", "penstock-tick ", "destination\r"])
def test_no_header_is_taken_for_the_brokers_own_in_1_0(name: str) -> None:
    frame = StompFrame("SEND", {"destination": "/topic/x", name: "5"}, b"body")
    body = ID.to_bytes() + outgoing(frame, types="infer", wall_ms=0).content
    lines = Rendering().at(V1_0).render(body, "p", TICK, is_guaranteed=True).rest.partition(b"\n\n")[0].split(b"\n")
    names = [line.partition(b":")[0] for line in lines]
    assert len(names) == len(set(names))
    assert name.strip().encode() not in names or b":5" not in b"".join(lines)
