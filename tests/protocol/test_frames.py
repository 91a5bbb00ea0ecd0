"""Frames as values: defaults, equality, and sizes that are close to what is sent."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol import frames as f
from penstock.protocol.codec import encode_frame

CONTROL = get_args(f.ControlFrame)
bodies = st.lists(st.binary(max_size=30), max_size=5)
pubend_names = st.text("abc.-_0", max_size=20)


def test_every_exported_frame_is_a_control_frame_or_a_data_frame() -> None:
    classes = {each for name in f.__all__ if isinstance(each := getattr(f, name), type)} - {
        f.KnowledgeKind,
        f.DurableEntry,
    }
    assert classes == {*CONTROL, *get_args(f.DataFrame)}
    assert {*get_args(f.Frame)} == classes


def test_every_control_frame_has_a_tag_of_its_own() -> None:
    tags = [each.__struct_config__.tag for each in CONTROL]
    assert len(set(tags)) == len(tags) == 70


def test_control_frames_are_values() -> None:
    state = f.LinkState("a", 1, 2, ("b",))
    assert state == f.LinkState("a", 1, 2, ("b",), ())
    assert hash(state) == hash(f.LinkState("a", 1, 2, ("b",)))
    assert state != f.LinkState("a", 1, 3, ("b",))
    with pytest.raises(AttributeError, match="immutable"):
        state.sequence = 3  # type: ignore[misc]


def test_what_is_left_out_is_empty() -> None:
    assert f.Hello(1, "client", "me", "penstock") == f.Hello(1, "client", "me", "penstock", 0, "")
    assert f.Heartbeat().now_ms == 0
    assert f.Subscribed(1, "TRUE").pending == ()
    assert f.StatusRequest().number == 0
    update = f.FilterUpdate(1, "a", 1, 0, -1)
    assert (update.added, update.removed) == ((), ())
    assert f.Publish(1, []).pubend == ""
    assert (f.PublishAck(1, 2).pubend, f.HeldBack("").pubend, f.Refused("publish", 1, "").pubend) == ("", "", "")
    assert (f.Rewind(1, 2).pubend, f.Rewind(1, 2).credit_bytes, f.Rewound(2).pubend) == ("", -1, "")
    assert f.PubendPlaces() == f.PubendPlaces((), (), is_complete=True)
    carry = f.Carry("p", "sb", b"", "", (3, 3, 4), [])
    assert (carry.round, carry.first, carry.is_first, carry.asks) == (3, 4, False, False)
    assert (f.Subscribe(1, "").positions, f.Subscribe(1, "").resumes) == ((), False)
    knowledge = f.KnowledgeMessage("p", 1, 2, [], [])
    assert (knowledge.kind, knowledge.versions, knowledge.is_whole) == (f.KnowledgeKind.LIVE, (), False)
    assert (f.Horizons(1, 2).numbers, f.Horizons(1, 2).is_only) == (b"", False)


def test_every_frame_is_an_array_that_starts_with_its_tag() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(f.Goodbye("slow", "why"))) == ["goodbye", "slow", "why"]


@given(st.integers(0, 2**64 - 1), bodies, pubend_names)
def test_the_size_of_a_publish_is_hardly_more_than_its_bytes(first: int, each: list[bytes], pubend: str) -> None:
    check_size(f.Publish(first, each, pubend))


@given(bodies, pubend_names, pubend_names, st.binary(max_size=32))
def test_the_size_of_a_carried_batch_is_hardly_more_than_its_bytes(
    each: list[bytes], pubend: str, client: str, publisher: bytes
) -> None:
    frame = f.Carry(pubend, "sb", publisher, client, (1, 1, 2), each)
    assert len(encode_frame(frame)) <= frame.size <= len(encode_frame(frame)) + 16


@given(bodies, pubend_names)
def test_the_size_of_a_forward_is_hardly_more_than_its_bytes(each: list[bytes], pubend: str) -> None:
    check_size(f.Forward(pubend, list(range(len(each))), each))


@given(bodies, st.integers(0, 5))
def test_the_size_of_a_delivery_is_that_of_its_bytes(each: list[bytes], count: int) -> None:
    frame = f.Deliver(1, list(range(len(each))), [bytes(4 * count)] * len(each), each)
    assert frame.size == len(encode_frame(frame))


@given(bodies, pubend_names, st.integers(0, 3))
def test_the_size_of_knowledge_is_not_less_than_its_bytes(each: list[bytes], pubend: str, hosts: int) -> None:
    versions = tuple((f"host{number}", 2**40, number) for number in range(hosts))
    frame = f.KnowledgeMessage(pubend, 0, 9, list(range(len(each))), each, versions=versions, is_whole=True)
    assert len(encode_frame(frame)) <= frame.size <= len(encode_frame(frame)) + 16 + 32 * hosts


@given(st.integers(0, 5), st.booleans())
def test_the_size_of_horizons_is_hardly_more_than_its_bytes(count: int, is_only: bool) -> None:
    check_size(f.Horizons(1, 2, bytes(4 * count), is_only=is_only))


@given(bodies, pubend_names, pubend_names, st.integers(0, 3))
def test_the_size_of_a_log_counts_also_what_it_takes_to_keep_it(
    each: list[bytes], pubend: str, host: str, losses: int
) -> None:
    lost = tuple((number, number) for number in range(losses))
    frame = f.LogAnswer(pubend, host, 1, (0, 9), list(range(len(each))), each, lost)
    assert len(encode_frame(frame)) + 400 <= frame.size <= len(encode_frame(frame)) + 512


def check_size(frame: f.DataFrame) -> None:
    assert len(encode_frame(frame)) <= frame.size <= len(encode_frame(frame)) + 8
