"""A session goes where its broker sends it, or stays, whatever happens in the middle of it."""

from __future__ import annotations

import pytest

from penstock.protocol.frames import (
    Goodbye,
    Hello,
    Migrate,
    Moved,
    MoveFailed,
    PubendPlaces,
    Publish,
    PublishAck,
    Refused,
    Rewind,
    Rewound,
    StatusReply,
    StatusRequest,
    Subscribe,
    Subscribed,
)
from penstock.session.settings import ClientSettings
from session.moving import horizon, message
from session.stage import GUARANTEED, LOOSE, NEW, Stage, subscribed_stage, welcome


def order(session: int = 7, address: str = NEW, broker: str = "new") -> Migrate:
    return Migrate(session, 1, broker, address)


def arriving(stage: Stage, session: int = 7) -> int:
    """The new line, welcomed, with the subscription asked for."""
    stage.tell(1, order(session))
    stage.welcome(stage.line, "new")
    assert stage.of(stage.line, Subscribe)
    return stage.line


def moved(stage: Stage) -> int:
    """The new line, which is the session's; the old one has not ended."""
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(500)
    assert stage.session.line == line
    return line


def refusal(stage: Stage, line: int = 1) -> str:
    return stage.of(line, MoveFailed)[-1].reason


def broker(stage: Stage) -> str:
    return stage.session.welcome.broker if stage.session.welcome else ""


def test_a_session_goes_where_it_is_told_and_is_looked_for_there_from_then_on() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, message(1, 1))
    line = moved(stage)
    assert (stage.of(1, Moved), stage.of(line, Moved)) == ([Moved(7)], [Moved(7)])
    assert (stage.of(line, Hello)[0].migration, stage.of(line, Hello)[0].origin) == (7, "old")
    stage.tell(1, Goodbye("moved", "client moved to broker new"))
    stage.tell(line, message(2, 1))
    assert [each.tick for each in inbox.queue] == [1, 2]
    stage.lose(line)
    stage.run(100)
    assert str(stage.dialled[stage.line]) == NEW
    stage.welcome(stage.line, "new")
    assert (stage.session.moves, stage.session.reconnects, broker(stage)) == (1, 1, "new")


def test_what_the_old_broker_still_has_is_taken_before_the_line_ends() -> None:
    stage, inbox = subscribed_stage()
    line = moved(stage)
    stage.tell(line, message(2, 1))
    stage.tell(1, message(1, 1))
    assert [each.tick for each in inbox.queue] == [1], "what came over the new line waits for that"
    assert 1 not in stage.gone
    stage.tell(1, Goodbye("moved", "client moved to broker new"))
    assert [each.tick for each in inbox.queue] == [1, 2]
    assert 1 in stage.gone


def test_an_old_broker_that_does_not_end_the_line_is_not_waited_for_for_ever() -> None:
    stage, _ = subscribed_stage()
    moved(stage)
    stage.run(11_999)
    assert 1 not in stage.gone
    stage.run(1)
    assert 1 in stage.gone
    assert not stage.session.is_moving


def test_an_old_line_is_cut_when_too_much_waits_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.session.overlap._HELD_BYTES_MAX", 600)
    stage, inbox = subscribed_stage()
    line = moved(stage)
    stage.tell(line, *(message(tick, 1) for tick in range(5)))
    assert 1 in stage.gone
    assert [each.tick for each in inbox.queue] == [0, 1, 2, 3, 4]


def test_a_session_stays_where_it_is_if_nobody_answers_there_or_says_no() -> None:
    stage, inbox = subscribed_stage()
    stage.tell(1, order())
    stage.lose(stage.line, "Connection refused")
    assert refusal(stage) == f"{NEW}: Connection refused"
    stage.tell(1, order(8))
    stage.connect(stage.line)
    stage.tell(stage.line, Goodbye("full", "no room here"))
    assert refusal(stage) == f"{NEW}: no room here (full)"
    stage.tell(1, order(9))
    stage.connect(stage.line)
    stage.tell(stage.line, Goodbye("refused", "not you"))
    assert refusal(stage) == "the broker refused to let this client in: not you"
    stage.tell(1, order(10))
    stage.run(5_000)
    assert refusal(stage) == f"{NEW}: no welcome within 5000 ms"
    stage.tell(1, message(1))
    assert [each.tick for each in inbox.queue] == [1]
    assert [failed.session for failed in stage.of(1, MoveFailed)] == [7, 8, 9, 10]
    assert (broker(stage), stage.session.reconnects, stage.session.is_moving) == ("old", 0, False)


def test_a_session_that_has_moved_and_then_stays_soon_has_nothing_left_of_the_move() -> None:
    stage, _ = subscribed_stage()
    line = moved(stage)
    stage.tell(1, Goodbye("moved", "client moved to broker new"))
    moves = stage.session._resident.moves
    stage.tell(line, order(8, "penstock://third:7000", "third"))
    stage.connect(stage.line)
    stage.tell(stage.line, Goodbye("full", "no room here"))
    assert "no room here" in refusal(stage, line)
    had_overlap = moves.overlap is not None
    stage.run(5_000)
    assert (had_overlap, moves.overlap) == (True, None)
    assert (broker(stage), moves.count) == ("new", 1)


def test_a_new_broker_that_dies_in_the_middle_changes_nothing() -> None:
    stage, inbox = subscribed_stage()
    stage.lose(arriving(stage))
    assert refusal(stage) == f"{NEW}: the connection was lost"
    line = arriving(stage, 8)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.tell(1, message(1))
    stage.run(500)
    assert stage.session.line == line
    assert [each.tick for each in inbox.queue] == [1]


def test_a_new_broker_that_is_not_ready_in_time_is_given_up() -> None:
    stage, _ = subscribed_stage()
    line = arriving(stage)
    stage.run(19_999)
    assert not stage.of(1, MoveFailed)
    stage.run(1)
    assert refusal(stage) == "the new broker was not ready within 20 s"
    assert line in stage.gone
    assert stage.of(line, Goodbye) == [Goodbye("closed", "the client is done")]


def test_a_new_broker_that_is_not_ready_any_more_after_the_overlap_is_waited_for() -> None:
    stage, _ = subscribed_stage()
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(400)
    stage.tell(1, Subscribed(1, "TRUE", (), (("quotes", 5),)))
    stage.run(1_000)
    assert stage.session.line == 1, "it does not bring the stream of quotes"
    stage.tell(line, horizon(5))
    stage.run(500)
    assert stage.session.line == line


def test_a_subscription_that_is_withdrawn_does_not_hold_up_the_move() -> None:
    stage, inbox = subscribed_stage()
    line = arriving(stage)
    stage.session.unsubscribe(inbox)
    stage.run(500)
    assert stage.session.line == line


@pytest.mark.parametrize("is_ready", [True, False])
def test_if_the_old_broker_dies_in_the_middle_the_new_one_has_the_client(is_ready: bool) -> None:
    stage, inbox = subscribed_stage()
    line = arriving(stage)
    if is_ready:
        stage.tell(line, Subscribed(1, "TRUE"))
    stage.lose(1)
    assert (stage.session.line, broker(stage)) == (line, "new")
    assert inbox.state == ("ready" if is_ready else "asked")
    stage.tell(line, Subscribed(1, "TRUE"), message(1))
    assert [each.tick for each in inbox.queue] == [1]
    assert (len(stage.dialled), stage.session.moves, stage.session.is_moving) == (2, 1, False)


def test_if_the_old_broker_dies_before_the_new_one_has_answered_the_session_reconnects() -> None:
    stage, _ = subscribed_stage()
    stage.tell(1, order())
    line = stage.line
    stage.connect(line)
    stage.lose(1)
    assert line in stage.gone
    stage.run(100)
    assert str(stage.dialled[stage.line]) == NEW
    stage.welcome(stage.line, "new")
    assert (broker(stage), stage.session.moves, stage.session.reconnects) == ("new", 0, 1)


def test_if_the_old_broker_dies_when_the_new_one_does_not_know_all_positions_the_session_reconnects() -> None:
    stage, _ = subscribed_stage()
    line = arriving(stage)
    stage.tell(1, Subscribed(1, "TRUE", (), (("quotes", 5),)))
    stage.lose(1)
    assert line in stage.gone
    stage.run(100)
    stage.welcome(stage.line)
    assert stage.of(stage.line, Subscribe) == [Subscribe(1, "TRUE", (("quotes", 5),), resumes=True)]
    assert stage.session.moves == 0


def test_who_is_pinned_or_moves_already_stays() -> None:
    stage, _ = subscribed_stage(ClientSettings(pinned=True))
    assert stage.of(1, Hello)[0].pinned
    stage.tell(1, order())
    assert refusal(stage) == "the client is pinned"
    stage, _ = subscribed_stage()
    arriving(stage)
    stage.tell(1, order(8))
    assert refusal(stage) == "the client is already moving"


@pytest.mark.parametrize("address", ["not-an-address", f"{NEW},third"])
def test_what_is_no_address_is_not_gone_to(address: str) -> None:
    stage, _ = subscribed_stage()
    stage.tell(1, order(address=address))
    assert address in refusal(stage)
    assert len(stage.dialled) == 1


def test_what_is_secret_does_not_go_where_everybody_can_hear_it() -> None:
    stage = Stage("penstocks://old:7000")
    stage.welcome(stage.open())
    stage.tell(1, order())
    assert refusal(stage) == f"{NEW} is not a single address at least as secure as penstocks://old:7000"
    stage.tell(1, order(8, "penstocks://new:7000"))
    assert stage.dialled[2].tls


def published(stage: Stage, line: int) -> list[tuple[str, int, list[bytes]]]:
    """What was published on a line: pubend, number of the first message, and all messages of each frame."""
    return [(frame.pubend, frame.first, frame.bodies) for frame in stage.of(line, Publish) if frame.bodies]


def publishing_stage(*bodies: bytes, pubend: str = GUARANTEED) -> Stage:
    """A session that has sent these messages on its first line."""
    stage, _ = subscribed_stage(ClientSettings(linger_ms=0))
    for body in bodies:
        stage.publish(body, pubend)
    stage.pump()
    assert published(stage, 1) == [(pubend, 1, [*bodies])]
    return stage


def test_what_a_guaranteed_pubend_has_not_acknowledged_is_sent_again_on_the_new_line() -> None:
    stage = publishing_stage(b"1", b"2", b"3")
    stage.tell(1, PublishAck(1, 1, GUARANTEED))
    line = moved(stage)
    assert published(stage, line) == [(GUARANTEED, 2, [b"2", b"3"])]
    said = [type(frame) for frame in stage.said[line]]
    assert said.index(Moved) < said.index(Publish)
    stage.tell(line, PublishAck(3, 2, GUARANTEED))
    stage.publish(b"4")
    stage.pump()
    assert published(stage, line)[1:] == [(GUARANTEED, 4, [b"4"])]
    assert (stage.session.publishing.acknowledged, stage.session.publishing.lost) == (3, 0)


def test_who_publishes_during_a_move_does_so_on_the_old_line_until_the_new_one_takes_over() -> None:
    stage = publishing_stage(b"1")
    line = arriving(stage)
    stage.publish(b"2")
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(400)
    stage.publish(b"3")
    stage.run(50)
    assert published(stage, 1)[1:] == [(GUARANTEED, 2, [b"2"]), (GUARANTEED, 3, [b"3"])]
    assert published(stage, line) == []
    stage.run(50)
    assert [body for _, _, bodies in published(stage, line) for body in bodies] == [b"1", b"2", b"3"]


def test_what_the_old_broker_says_of_messages_after_the_move_does_not_count() -> None:
    """They are sent again on the new line, whose broker will say it, too."""
    stage = publishing_stage(b"1", b"2")
    line = moved(stage)
    stage.tell(1, PublishAck(2, 2, GUARANTEED), Refused("publish", 2, "no", 1, GUARANTEED), Rewind(1, 1, GUARANTEED))
    assert stage.session.line == line
    assert (stage.session.publishing.acknowledged, stage.session.publishing.refused) == (0, 0)
    assert stage.of(1, Rewound) == stage.of(line, Rewound) == []
    stage.tell(line, PublishAck(2, 2, GUARANTEED))
    assert stage.session.publishing.acknowledged == 2


def test_a_pubend_that_guarantees_nothing_rests_until_it_has_everything_and_then_the_client_moves() -> None:
    stage = publishing_stage(b"1", pubend=LOOSE)
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(600)
    assert stage.session.line == 1, "what is on the wire could not be sent again"
    asked = stage.of(1, Publish)[-1]
    assert (asked.pubend, asked.bodies) == (LOOSE, [])
    stage.publish(b"2", LOOSE)
    stage.publish(b"g", GUARANTEED)
    stage.run(100)
    assert published(stage, 1)[1:] == [(GUARANTEED, 1, [b"g"])], "the others go on"
    stage.tell(1, PublishAck(1, 1, LOOSE))
    stage.run(10)
    assert stage.session.line == line
    assert {pubend: bodies for pubend, _, bodies in published(stage, line)} == {LOOSE: [b"2"], GUARANTEED: [b"g"]}
    assert (stage.session.publishing.lost, stage.session.moves) == (0, 1)


def test_a_pubend_that_guarantees_nothing_goes_on_if_the_move_is_given_up() -> None:
    stage = publishing_stage(b"1", pubend=LOOSE)
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(600)
    stage.publish(b"2", LOOSE)
    stage.run(100)
    assert published(stage, 1) == [(LOOSE, 1, [b"1"])]
    stage.tell(line, Goodbye("full", "no room"))
    stage.run(10)
    assert (stage.session.line, published(stage, 1)[1:]) == (1, [(LOOSE, 2, [b"2"])])


def test_a_pubend_that_does_not_answer_keeps_the_client_where_it_is() -> None:
    stage = publishing_stage(b"1", pubend=LOOSE)
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    for _ in range(4):
        stage.run(5_000)
    assert (stage.session.line, line in stage.gone) == (1, True)
    assert refusal(stage) == "what was published best effort is not acknowledged"
    stage.publish(b"2", LOOSE)
    stage.pump()
    assert published(stage, 1)[1:] == [(LOOSE, 2, [b"2"])]


def test_if_the_old_broker_dies_while_pubends_rest_the_new_one_takes_over_and_only_they_lose() -> None:
    stage = publishing_stage(b"1", pubend=LOOSE)
    stage.publish(b"g", GUARANTEED)
    stage.pump()
    line = arriving(stage)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(600)
    stage.publish(b"2", LOOSE)
    stage.lose(1)
    assert stage.session.line == line
    assert {pubend: bodies for pubend, _, bodies in published(stage, line)} == {LOOSE: [b"2"], GUARANTEED: [b"g"]}
    assert [(each.pubend, each.body) for each in stage.session.publishing.take_failures()] == [(LOOSE, b"1")]


def test_what_the_new_broker_says_about_pubends_during_the_move_is_known_after_it() -> None:
    stage = publishing_stage(b"1")
    line = arriving(stage)
    stage.tell(line, PubendPlaces((("extra", "far", True),), (LOOSE,)), Subscribed(1, "TRUE"))
    assert "extra" not in stage.session.publishing.places
    stage.run(500)
    assert stage.session.line == line
    assert {*stage.session.publishing.places} == {GUARANTEED, "extra"}


def test_what_is_asked_before_a_move_is_answered_after_it() -> None:
    stage, _ = subscribed_stage()
    line = arriving(stage)
    number = stage.session.ask(StatusRequest, now_ms=stage.now_ms)
    stage.tell(line, Subscribed(1, "TRUE"))
    stage.run(500)
    assert stage.of(line, StatusRequest) == [StatusRequest(number)]
    assert stage.tell(line, StatusReply(number, b"{}")).answers == [StatusReply(number, b"{}")]


def test_durable_names_that_went_ahead_are_claimed_back_on_a_new_line() -> None:
    stage, inbox = subscribed_stage(durable="app")
    line = arriving(stage)
    stage.tell(1, Refused("subscribe", 1, "app was taken over"))
    stage.lose(line)
    assert [type(frame) for frame in stage.said[1]][-2:] == [MoveFailed, Goodbye]
    assert stage.of(1, Goodbye)[0].code == "again"
    stage.run(100)
    stage.welcome(stage.line)
    assert [each.durable for each in stage.of(stage.line, Subscribe)] == ["app"]
    assert inbox.state == "asked"


def test_a_name_that_is_taken_over_after_the_move_was_given_up_is_claimed_back() -> None:
    stage, _ = subscribed_stage(durable="app")
    stage.lose(arriving(stage))
    assert 1 not in stage.gone
    stage.tell(1, Refused("subscribe", 1, "app was taken over"))
    assert stage.of(1, Goodbye)[0].code == "again"


def test_a_session_that_is_closed_in_the_middle_leaves_nothing_behind() -> None:
    stage, _ = subscribed_stage()
    line = arriving(stage)
    stage.react(stage.session.close(now_ms=stage.now_ms))
    assert [*stage.gone] == [line, 1]
    assert stage.session.next_deadline() is None
    stage, _ = subscribed_stage()
    moved(stage)
    stage.react(stage.session.close(now_ms=stage.now_ms))
    assert len(stage.gone) == 2
    assert stage.session.next_deadline() is None


def test_a_new_line_that_nobody_reads_or_writes_has_no_deadline_of_its_own() -> None:
    stage, _ = subscribed_stage(ClientSettings(queue_messages=2))
    line = arriving(stage)
    stage.session.on_writable(line, is_writable=False)
    stage.tell(1, message(1), message(2))
    assert not stage.session.reading
    stage.run(19_999)
    assert line not in stage.gone, "its silence is our own doing"


def test_a_welcome_from_somebody_else_is_a_reason_to_stay() -> None:
    stage, _ = subscribed_stage()
    stage.tell(1, order())
    stage.connect(stage.line)
    stage.tell(stage.line, welcome("third"))
    assert refusal(stage) == f"{NEW}: broker third of overlay o answers there"
