"""The queues of a client: which pubend a message goes to, and what becomes of it when pubends come and go."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from msgspec import structs

from penstock.model.errors import LimitError
from penstock.model.message import Message
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import (
    HeldBack,
    PubendPlaces,
    Publish,
    PublishAck,
    Refused,
    Rewind,
    Rewound,
    Skipped,
    Welcome,
)
from penstock.session.errors import UnknownPubendError
from penstock.session.publish_queue import Failure, PublishQueue
from penstock.session.publishing import Identifying, PubendPlace, Publishing
from penstock.session.settings import Choice, ClientSettings
from session.moving import welcome

MANY = tuple(f"p{number}" for number in range(8))
IDENTITIES = [bytes([number]) * 16 for number in range(200)]


def greeting(
    broker: str = "b1",
    pubends: tuple[str, ...] = (),
    *,
    best_effort: tuple[str, ...] = (),
    others: tuple[tuple[str, str, bool], ...] = (),
    is_complete: bool = True,
    overlay: str = "o",
) -> Welcome:
    return structs.replace(
        welcome(broker, pubends, overlay), best_effort=best_effort, others=others, is_complete=is_complete
    )


def far(*pubends: str, broker: str = "far", is_guaranteed: bool = True) -> tuple[tuple[str, str, bool], ...]:
    return tuple((pubend, broker, is_guaranteed) for pubend in pubends)


def publishing_with(
    first: Welcome, *, choice: Choice = "near", identity: bytes = b"me", stop_at_refusal: bool = False
) -> Publishing:
    publishing = Publishing(ClientSettings(linger_ms=0, choice=choice, stop_at_refusal=stop_at_refusal))
    publishing.identity = identity
    publishing.on_welcome(first, now_ms=0)
    return publishing


def queue_of(publishing: Publishing, pubend: str) -> PublishQueue:
    queue = publishing.queue_for(pubend)
    assert queue is not None
    return queue


def put(publishing: Publishing, pubend: str, *bodies: bytes) -> None:
    for body in bodies:
        queue_of(publishing, pubend).put(body, now_ms=0)


def put_anyway(publishing: Publishing, pubend: str, body: bytes) -> None:
    """Puts a message that had room before the window has shrunk."""
    queue_of(publishing, pubend).put(body, now_ms=0, had_room=True)


def sent(publishing: Publishing, now_ms: int = 0) -> list[tuple[str, int, list[bytes]]]:
    """What is published now: pubend, number of the first message, and all messages of each frame."""
    frames = publishing.take(now_ms=now_ms)
    publishing.check_invariants()
    return [(frame.pubend, frame.first, frame.bodies) for frame in frames if isinstance(frame, Publish)]


def tell(publishing: Publishing, *frames: PublishAck | HeldBack | Refused | Rewind) -> None:
    for frame in frames:
        publishing.on_frame(frame, now_ms=0)
        publishing.check_invariants()


def reconnect(publishing: Publishing, following: Welcome) -> None:
    publishing.on_disconnected()
    publishing.on_welcome(following, now_ms=0)
    publishing.check_invariants()


# Which pubends there are.


def test_the_pubends_are_those_of_the_broker_and_of_all_others() -> None:
    publishing = publishing_with(
        greeting("b1", ("a", "b"), best_effort=("b",), others=(("c", "b2", True), ("d", "b3", False)))
    )
    assert publishing.places == {
        "a": PubendPlace("b1", is_guaranteed=True),
        "b": PubendPlace("b1", is_guaranteed=False),
        "c": PubendPlace("b2", is_guaranteed=True),
        "d": PubendPlace("b3", is_guaranteed=False),
    }
    publishing.on_places(PubendPlaces((("c", "b9", False), ("e", "b9", True)), ("a", "d")), now_ms=0)
    assert publishing.places == {
        "b": PubendPlace("b1", is_guaranteed=False),
        "c": PubendPlace("b9", is_guaranteed=False),
        "e": PubendPlace("b9", is_guaranteed=True),
    }
    publishing.on_disconnected()
    assert [*publishing.places] == ["b", "c", "e"], "they are remembered"
    publishing.on_welcome(greeting("b2", ("c",)), now_ms=0)
    assert [*publishing.places] == ["c"]


def test_a_name_that_nobody_knows_is_an_error_with_the_names_there_are() -> None:
    publishing = publishing_with(greeting("b1", ("b",), others=far("a")))
    with pytest.raises(UnknownPubendError, match=r"^overlay o has no pubend 'c'; there are: a, b$"):
        publishing.queue_for("c")
    with pytest.raises(UnknownPubendError, match=r"^overlay o has no pubend 'c'; there are: none$"):
        publishing_with(greeting()).queue_for("c")
    with pytest.raises(UnknownPubendError, match=r"^overlay o has no pubends$"):
        publishing_with(greeting()).queue_for("")
    many = publishing_with(greeting(others=far(*(f"p{number:02}" for number in range(30)))))
    with pytest.raises(UnknownPubendError, match=r"p18, p19, \.\.\.$"):
        many.queue_for("c")
    with pytest.raises(LimitError, match="the name of the pubend"):
        publishing.queue_for("p" * 101)


def test_while_the_broker_does_not_know_all_pubends_nobody_can_tell() -> None:
    publishing = publishing_with(greeting("b1", is_complete=False))
    assert publishing.queue_for("a") is None
    assert publishing.queue_for("") is None
    publishing.on_places(PubendPlaces(far("b"), is_complete=False), now_ms=0)
    assert publishing.queue_for("a") is None
    assert queue_of(publishing, "b").is_open
    publishing.on_places(PubendPlaces(), now_ms=0)
    with pytest.raises(UnknownPubendError, match="there are: b"):
        publishing.queue_for("a")


def test_without_a_connection_nobody_can_tell_either() -> None:
    publishing = Publishing(ClientSettings())
    assert publishing.queue_for("a") is None
    publishing.on_welcome(greeting("b1", ("b",)), now_ms=0)
    publishing.on_disconnected()
    assert publishing.queue_for("a") is None, "the next broker may know it"
    assert not queue_of(publishing, "b").is_open, "it may be asked for, but has no room yet"
    publishing.on_welcome(greeting("b1", ("b",)), now_ms=0)
    assert queue_of(publishing, "b").is_open


# The choice of a pubend.


def choices(first: Welcome, choice: Choice) -> list[str]:
    """The choices of many publishers."""
    return [queue_of(publishing_with(first, choice=choice, identity=each), "").pubend for each in IDENTITIES]


def test_who_prefers_what_is_near_chooses_among_the_pubends_of_its_broker() -> None:
    first = greeting("b1", ("a", "b"), others=far(*MANY))
    assert {*choices(first, "near")} == {"a", "b"}
    assert {*choices(greeting("b1", others=far(*MANY)), "near")} == {*MANY}, "there are none near"


def test_who_chooses_by_hash_chooses_among_all() -> None:
    assert {*choices(greeting("b1", ("a", "b"), others=far(*MANY)), "hash")} == {"a", "b", *MANY}


def test_a_choice_by_hash_does_not_depend_on_the_broker() -> None:
    here = greeting("b1", MANY[:3], others=far(*MANY[3:]))
    there = greeting("b2", MANY[5:], others=far(*MANY[:5]))
    assert choices(here, "hash") == choices(there, "hash")


def test_one_pubend_more_or_less_changes_only_the_choices_for_that_one() -> None:
    before = choices(greeting(others=far(*MANY)), "hash")
    after = choices(greeting(others=far(*MANY, "new")), "hash")
    changed = [(one, other) for one, other in zip(before, after, strict=True) if one != other]
    assert changed
    assert {other for _, other in changed} == {"new"}


@pytest.mark.parametrize("choice", ["near", "hash"])
def test_guaranteed_pubends_are_preferred(choice: Choice) -> None:
    mixed = greeting("b1", ("a", "b"), best_effort=("a",), others=far("c", is_guaranteed=False))
    assert {*choices(mixed, choice)} == {"b"}
    none = greeting("b1", ("a", "b"), best_effort=("a", "b"))
    assert {*choices(none, choice)} == {"a", "b"}, "if there are none, the others will do"


def test_near_means_the_pubends_of_the_broker_even_if_they_guarantee_nothing() -> None:
    loose = greeting("b1", ("a",), best_effort=("a",), others=far("c"))
    assert {*choices(loose, "near")} == {"a"}
    assert {*choices(loose, "hash")} == {"c"}
    assert {*choices(greeting("b1", ("a", "b"), best_effort=("a",), others=far("c")), "near")} == {"b"}


def test_a_client_stays_with_its_choice_wherever_it_goes() -> None:
    publishing = publishing_with(greeting("b1", ("a",)))
    chosen = queue_of(publishing, "")
    assert chosen is queue_of(publishing, "a")
    reconnect(publishing, greeting("b2", ("b", "c"), others=far("a")))
    assert queue_of(publishing, "") is chosen
    publishing.on_places(PubendPlaces(far("d")), now_ms=0)
    assert queue_of(publishing, "") is chosen


def test_a_client_chooses_again_only_when_its_pubend_is_gone() -> None:
    publishing = publishing_with(greeting("b1", ("a",), others=far("b")))
    put(publishing, "", b"1")
    assert sent(publishing) == [("a", 1, [b"1"])]
    publishing.on_places(PubendPlaces((), ("a",)), now_ms=0)
    put(publishing, "", b"2")
    assert sent(publishing) == [("b", 1, [b"2"])]


# Several pubends.


def test_each_pubend_has_numbers_and_a_window_of_its_own() -> None:
    publishing = publishing_with(structs.replace(greeting("b1", ("a", "b")), credit_bytes=10))
    for pubend in ("a", "b", "a"):
        put(publishing, pubend, pubend.encode())
    assert sent(publishing) == [("a", 1, [b"a", b"a"]), ("b", 1, [b"b"])]
    put(publishing, "a", bytes(8))
    assert not queue_of(publishing, "a").has_room(1)
    assert queue_of(publishing, "b").has_room(9)
    tell(publishing, HeldBack("a is full", 1, "a"))
    assert sent(publishing) == []
    assert publishing.held_back == "a is full"
    assert publishing.next_deadline() is None
    put(publishing, "b", b"b")
    assert publishing.next_deadline() == 0
    assert sent(publishing) == [("b", 2, [b"b"])]
    tell(publishing, PublishAck(2, 2, "b"))
    assert (publishing.acknowledged, publishing.settled, publishing.published) == (2, 2, 5)


def test_a_rewind_of_one_pubend_is_answered_before_its_messages_and_concerns_no_other() -> None:
    publishing = publishing_with(greeting("b1", ("a", "b")))
    for pubend in ("a", "b"):
        put(publishing, pubend, b"1", b"2", b"3")
    assert len(sent(publishing)) == 2
    tell(publishing, Refused("publish", 1, "no", 1, "b"), Refused("publish", 3, "nor", 1, "b"), Rewind(1, 4, "b"))
    answer, skipped, again = publishing.take(now_ms=0)
    assert (answer, skipped) == (Rewound(4, "b"), Skipped(2, "b"))
    assert isinstance(again, Publish)
    assert (again.pubend, again.first, again.bodies) == ("b", 2, [b"2"])
    assert publishing.take_failures() == [Failure("b", 1, b"1", "no"), Failure("b", 3, b"3", "nor")]
    assert (publishing.refused, publishing.refusal) == (2, "nor")


def test_a_queue_that_stops_at_a_refusal_stops_no_other() -> None:
    publishing = publishing_with(greeting("b1", ("a", "b")), stop_at_refusal=True)
    for pubend in ("a", "b"):
        put(publishing, pubend, b"1", b"2")
    mark = publishing.mark()
    assert len(sent(publishing)) == 2
    tell(publishing, Refused("publish", 1, "no", 1, "a"), Rewind(1, 1, "a"), PublishAck(2, 2, "b"))
    assert publishing.take(now_ms=0) == [], "not even an answer"
    assert publishing.is_stopped
    assert publishing.is_stopped_at(mark)
    assert not publishing.is_stopped_at({"b": 2})
    put(publishing, "b", b"3")
    assert sent(publishing) == [("b", 3, [b"3"])]


@pytest.mark.parametrize(
    "frame", [PublishAck(1, 1, "b"), HeldBack("why", 0, "b"), Refused("publish", 1, "no", 1, "b"), Rewind(1, 1, "b")]
)
def test_an_answer_about_a_pubend_to_which_nothing_was_published_is_the_brokers_fault(
    frame: PublishAck | HeldBack | Refused | Rewind,
) -> None:
    publishing = publishing_with(greeting("b1", ("a", "b")))
    put(publishing, "a", b"1")
    with pytest.raises(ProtocolError, match=f"{type(frame).__name__} names pubend 'b', to which nothing was published"):
        publishing.on_frame(frame, now_ms=0)


def test_a_mark_is_settled_when_all_pubends_have_got_so_far() -> None:
    publishing = publishing_with(greeting("b1", ("a", "b", "c")))
    assert publishing.is_settled(publishing.mark())
    put(publishing, "a", b"1")
    put(publishing, "b", b"1", b"2")
    mark = publishing.mark()
    put(publishing, "a", b"2")
    put(publishing, "c", b"1")
    assert mark == {"a": 1, "b": 2}
    sent(publishing)
    tell(publishing, PublishAck(1, 1, "a"), PublishAck(1, 1, "b"))
    assert not publishing.is_settled(mark)
    tell(publishing, Refused("publish", 2, "no", 1, "b"))
    assert publishing.is_settled(mark)
    assert not publishing.is_settled(publishing.mark())
    publishing.abandon()
    assert publishing.is_settled(publishing.mark())
    assert (publishing.acknowledged, publishing.refused, publishing.lost) == (2, 1, 2)


def test_hurry_asks_all_pubends() -> None:
    publishing = publishing_with(greeting("b1", ("a", "b")))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    put(publishing, "b", b"1")
    publishing.hurry(now_ms=0)
    assert sent(publishing) == [("a", 2, []), ("b", 1, [b"1"]), ("b", 2, [])]


# Other connections.


def test_another_broker_of_the_overlay_gets_everything_again_but_for_pubends_that_guarantee_nothing() -> None:
    publishing = publishing_with(greeting("b1", ("a",), others=far("loose", is_guaranteed=False)))
    for pubend in ("a", "loose"):
        put(publishing, pubend, b"1", b"2")
    assert len(sent(publishing)) == 2
    tell(publishing, PublishAck(1, 1, "a"), PublishAck(1, 1, "loose"))
    for pubend in ("a", "loose"):
        put(publishing, pubend, b"3")
    reconnect(publishing, greeting("b2", others=(*far("a"), *far("loose", is_guaranteed=False))))
    assert publishing.take_failures() == [Failure("loose", 2, b"2", "")]
    again = sent(publishing)
    assert [(pubend, body) for pubend, _, bodies in again for body in bodies] == [
        ("a", b"2"),
        ("a", b"3"),
        ("loose", b"3"),
    ]
    assert again[0][:2] == ("a", 2)


def test_another_overlay_gets_nothing_again() -> None:
    publishing = publishing_with(greeting("b1", ("a",)))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    reconnect(publishing, greeting("b1", ("a",), overlay="another"))
    assert (publishing.lost, sent(publishing)) == (1, [])


def test_messages_to_a_pubend_that_the_next_broker_does_not_know_yet_wait_for_it() -> None:
    publishing = publishing_with(greeting("b1", ("a",)))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    put(publishing, "a", b"2")
    reconnect(publishing, greeting("b2", is_complete=False))
    assert (sent(publishing), publishing.next_deadline(), publishing.settled) == ([], None, 0)
    assert not queue_of(publishing, "a").has_room(1), "it was found before, but cannot be sent to"
    publishing.on_places(PubendPlaces(far("a")), now_ms=7)
    assert sent(publishing, 7) == [("a", 1, [b"1"]), ("a", 2, [b"2"])]


def test_messages_to_a_pubend_that_turns_out_not_to_exist_are_refused() -> None:
    publishing = publishing_with(greeting("b1", ("a",)))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    put(publishing, "a", b"2")
    reconnect(publishing, greeting("b2", ("b",), is_complete=False))
    assert publishing.settled == 0
    publishing.on_places(PubendPlaces(), now_ms=0)
    publishing.check_invariants()
    problem = "overlay o has no pubend 'a'; there are: b"
    assert publishing.take_failures() == [Failure("a", 1, b"1", ""), Failure("a", 2, b"2", problem)]
    assert (publishing.settled, publishing.lost, publishing.refused, publishing.refusal) == (2, 1, 1, problem)
    with pytest.raises(UnknownPubendError):
        publishing.queue_for("a")


def test_a_welcome_that_is_complete_settles_what_its_overlay_does_not_have() -> None:
    publishing = publishing_with(greeting("b1", ("a",)))
    put(publishing, "a", b"1")
    reconnect(publishing, greeting("b2", ("b",)))
    assert [failure.reason for failure in publishing.take_failures()] == ["overlay o has no pubend 'a'; there are: b"]


def test_a_pubend_that_the_broker_does_not_know_for_a_while_is_sent_to_as_its_broker_allows() -> None:
    """The broker holds its publishers back meanwhile, and wants everything again when it is back."""
    publishing = publishing_with(greeting("b1", others=far("a")))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    publishing.on_places(PubendPlaces((), ("a",), is_complete=False), now_ms=0)
    assert queue_of(publishing, "a").is_open
    put(publishing, "a", b"2")
    tell(publishing, HeldBack("a is out of reach", 1, "a"))
    assert sent(publishing) == []
    publishing.on_places(PubendPlaces(far("a")), now_ms=0)
    assert (publishing.lost, sent(publishing)) == (0, []), "the broker decides what is sent again"
    tell(publishing, HeldBack("", 0, "a"), Rewind(1, 3, "a", 1_000))
    assert sent(publishing) == [("a", 1, [b"1"]), ("a", 2, [b"2"])]


def test_a_pubend_that_is_gone_on_a_live_connection_settles_its_messages_and_comes_back_with_a_hole() -> None:
    publishing = publishing_with(greeting("b1", others=far("a", "b")))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    tell(publishing, HeldBack("a is out of reach", 1, "a"))
    put_anyway(publishing, "a", b"2")
    publishing.on_places(PubendPlaces((), ("a",)), now_ms=0)
    publishing.check_invariants()
    problem = "overlay o has no pubend 'a'; there are: b"
    assert publishing.take_failures() == [Failure("a", 1, b"1", ""), Failure("a", 2, b"2", problem)]
    assert publishing.is_settled(publishing.mark())
    publishing.on_places(PubendPlaces(far("a")), now_ms=0)
    tell(publishing, HeldBack("", 0, "a"), Rewind(1, 1, "a", 1_000))
    put(publishing, "a", b"3")
    answer, skipped, following = publishing.take(now_ms=0)
    assert (answer, skipped) == (Rewound(1, "a"), Skipped(3, "a"))
    assert isinstance(following, Publish)
    assert (following.first, following.bodies) == (3, [b"3"])
    tell(publishing, PublishAck(3, 1, "a"))
    assert (publishing.acknowledged, publishing.lost, publishing.refused, publishing.settled) == (1, 1, 1, 3)


def test_whether_a_repetition_is_recognised_depends_on_where_each_pubend_was_last_sent_to() -> None:
    publishing = publishing_with(greeting("b1", ("a", "b")))
    for pubend in ("a", "b"):
        put(publishing, pubend, b"1")
    assert len(sent(publishing)) == 2
    reconnect(publishing, greeting("b1", ("b",), overlay="another", is_complete=False))
    assert publishing.take_failures() == [Failure("b", 1, b"1", "")]
    put(publishing, "b", b"2")
    assert sent(publishing) == [("b", 2, [b"2"])]
    reconnect(publishing, greeting("b1", ("a", "b")))
    assert publishing.take_failures() == [Failure("b", 2, b"2", "")]
    assert sent(publishing) == [("a", 1, [b"1"])], "nothing was sent to a in the other overlay"


@pytest.mark.parametrize("is_guaranteed", [True, False])
def test_a_class_that_changes_counts_for_what_is_sent_from_then_on(is_guaranteed: bool) -> None:
    publishing = publishing_with(greeting("b1", others=far("a", is_guaranteed=not is_guaranteed)))
    put(publishing, "a", b"1")
    assert len(sent(publishing)) == 1
    publishing.on_places(PubendPlaces(far("a", is_guaranteed=is_guaranteed)), now_ms=0)
    assert (publishing.lost, sent(publishing)) == (0, []), "it may still be acknowledged"
    tell(publishing, Rewind(1, 1, "a", 1_000))
    assert publishing.take_failures() == [Failure("a", 1, b"1", "")]
    put(publishing, "a", b"2")
    assert sent(publishing) == [("a", 2, [b"2"])]
    reconnect(publishing, greeting("b2", others=far("a", is_guaranteed=is_guaranteed)))
    assert publishing.lost == (1 if is_guaranteed else 2)


def test_what_was_sent_on_before_a_pubend_became_guaranteed_is_acknowledged_and_the_rest_is_sent_again() -> None:
    publishing = publishing_with(greeting("b1", others=far("a", is_guaranteed=False)))
    put(publishing, "a", b"1", b"2")
    assert len(sent(publishing)) == 1
    publishing.on_places(PubendPlaces(far("a")), now_ms=0)
    tell(publishing, Rewind(2, 1, "a"), PublishAck(1, 1, "a"))
    assert sent(publishing) == [("a", 2, [b"2"])]
    assert (publishing.acknowledged, publishing.lost) == (1, 0)
    reconnect(publishing, greeting("b2", others=far("a")))
    assert sent(publishing) == [("a", 2, [b"2"])], "it was guaranteed when this was sent"


# Rest before a move.


def test_only_pubends_that_guarantee_nothing_rest_until_they_have_what_they_were_sent() -> None:
    publishing = publishing_with(greeting("b1", ("a", "x", "y", "z"), best_effort=("x", "y", "z")))
    for pubend in ("a", "x", "y"):
        put(publishing, pubend, b"1")
    assert len(sent(publishing)) == 3
    assert not publishing.rest(now_ms=0)
    for pubend in ("a", "x", "z"):
        put(publishing, pubend, b"2")
    assert sent(publishing) == [("a", 2, [b"2"]), ("x", 2, []), ("y", 2, []), ("z", 1, [b"2"])]
    tell(publishing, PublishAck(1, 1, "x"))
    assert not publishing.rest(now_ms=0), "y has not answered, and z was not idle"
    tell(publishing, PublishAck(1, 1, "y"), PublishAck(1, 1, "z"))
    assert publishing.rest(now_ms=0)
    assert [bodies for _, _, bodies in sent(publishing) if bodies] == []
    publishing.go_on()
    assert sent(publishing) == [("x", 2, [b"2"])]


def test_the_next_connection_ends_the_rest() -> None:
    publishing = publishing_with(greeting("b1", ("x",), best_effort=("x",)))
    put(publishing, "x", b"1")
    assert len(sent(publishing)) == 1
    assert not publishing.rest(now_ms=0)
    put(publishing, "x", b"2")
    reconnect(publishing, greeting("b2", others=far("x", is_guaranteed=False)))
    assert [bodies for _, _, bodies in sent(publishing) if bodies] == [[b"2"]]


def test_a_publisher_that_numbers_durably_may_have_got_further_at_some_pubends_than_at_others() -> None:
    publishing = Publishing(ClientSettings(linger_ms=0, publisher=b"me", published={"a": 41, "b": 7}))
    publishing.on_welcome(greeting("b1", ("a", "b", "c")), now_ms=0)
    for pubend in ("a", "b", "c"):
        put(publishing, pubend, b"1")
    assert sent(publishing) == [("a", 42, [b"1"]), ("b", 8, [b"1"]), ("c", 1, [b"1"])]
    tell(publishing, PublishAck(42, 1, "a"))
    assert (publishing.acknowledged, publishing.settled, publishing.mark()) == (1, 1, {"a": 1, "b": 1, "c": 1})


# Identifiers.


def test_identifiers_have_the_number_and_the_clock_of_the_broker_and_ascend() -> None:
    identifying = Identifying(nullcontext())
    identifying.on_welcome(welcome("b"), skew_ms=500)
    ids = [identifying.identify(Message({}), wall_ms=1_000)[0] for _ in range(2)]
    assert [(each.publisher, each.broker, each.timestamp_ms) for each in ids] == [(11, 2, 1_500)] * 2
    identifying.on_welcome(welcome("b"), skew_ms=-900)
    assert identifying.identify(Message({}), wall_ms=1_000)[0] > max(ids)


def test_a_message_that_no_frame_can_carry_is_refused() -> None:
    identifying = Identifying(nullcontext())
    identifying.on_welcome(welcome("b"), skew_ms=0)
    with pytest.raises(LimitError):
        identifying.identify(Message({f"a{number}": "x" * 65_536 for number in range(20)}), wall_ms=0)
