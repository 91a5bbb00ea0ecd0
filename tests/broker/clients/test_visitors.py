"""The home: takes only the next message of a visitor, answers questions, and survives neighbours that send garbage."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from overlay import Overlay, Publisher, chain, ring
from penstock.broker.clients import visitors as visitors_module
from penstock.broker.sources import Source
from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.protocol import frames as f

PATIENT_MS = 10_000_000
ME = b"me"


class Home:
    """A pubend, with a neighbour that says what a test wants; all answers wait to be read."""

    def __init__(self, *, guaranteed: bool = True, **settings: object) -> None:
        self.overlay = chain("pb", "ib", "sb", guaranteed=guaranteed, silent_ms=PATIENT_MS, **settings)
        self.overlay.wait(1_000)
        self.overlay.delay("pb", "ib")

    def hear(
        self,
        round_number: int,
        first: int,
        *numbers: int,
        is_first: bool = False,
        asks: bool = False,
        publisher: bytes = ME,
        host: str = "sb",
        pubend: str = "pb.a",
    ) -> None:
        """Hears messages that are carried for a publisher, or a question if there are none."""
        bodies = [self.body(number) for number in numbers]
        frame = f.Carry(
            pubend, host, publisher, "feed", (round_number, first - 1, first), bodies, is_first=is_first, asks=asks
        )
        self.overlay.lie("pb", "ib", frame)

    def body(self, number: int) -> bytes:
        return encode_body(MessageId(7, 3, self.overlay.now_ms, number), Message({"number": number}))

    def answers(self) -> list[f.Carried]:
        """What was answered since the last call."""
        outbox = self.overlay.brokers["pb"]._connections.links["ib"].outbox
        return [each for each in outbox.take(10**9) if isinstance(each, f.Carried)]

    def said(self) -> list[tuple[int, int, bool]]:
        """Round, number and whether the round is broken, of each answer since the last call."""
        return [(each.round, each.settled, each.is_broken) for each in self.answers()]

    def visitors(self) -> list[Source]:
        return list(self.overlay.brokers["pb"]._visitors._visitors.values())

    @property
    def counts(self) -> dict[str, int]:
        return self.overlay.brokers["pb"]._visitors.counts

    @property
    def logged(self) -> Sequence[object]:
        return self.overlay.logged("pb.a")


# --- what is taken


def test_a_round_is_taken_in_order_and_settled_when_it_is_durable() -> None:
    home = Home()
    home.overlay.syncs = False
    home.hear(5, 1, 0, 1, is_first=True)
    home.hear(5, 3, 2, asks=True)
    assert home.said() == []
    home.overlay.sync()
    assert home.said() == [(5, 3, False)]
    assert home.logged == [0, 1, 2]


def test_a_question_is_answered_at_once_and_again_when_everything_is_settled() -> None:
    home = Home()
    home.overlay.syncs = False
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 2, asks=True)
    assert home.said() == [(5, 0, False)]
    home.overlay.sync()
    assert home.said() == [(5, 1, False)]
    home.hear(5, 2)
    assert home.said() == [(5, 1, False)]


def test_after_a_gap_nothing_of_the_round_is_taken_any_more() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 3, 2)
    home.hear(5, 4, 3)
    home.hear(5, 2, 1)
    assert home.logged == [0]
    assert home.said() == [(5, 1, True)] * 3
    assert home.counts["carry_broken"] == 1
    home.hear(6, 2, 1, 2, is_first=True)
    assert home.logged == [0, 1, 2]


def test_a_question_for_more_than_has_come_breaks_the_round() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 3)
    assert home.said()[-1] == (5, 1, True)
    home.hear(5, 2, 1)
    assert home.logged == [0]


@pytest.mark.parametrize("numbers", [(1,), ()])
def test_a_round_whose_beginning_is_not_known_is_broken(numbers: tuple[int, ...]) -> None:
    home = Home()
    home.hear(5, 2, *numbers)
    assert home.said() == [(5, 0, True)]
    assert home.logged == []


def test_a_round_that_repeats_messages_is_recognised_and_settled_without_storing_them() -> None:
    home = Home()
    home.hear(5, 1, 0, 1, is_first=True)
    home.hear(6, 1, 0, 1, 2, is_first=True, asks=True)
    assert home.logged == [0, 1, 2]
    assert home.said()[-1] == (6, 3, False)
    assert home.overlay.brokers["pb"].status().counts["publishes_repeated"] == 2


def test_a_repetition_of_what_is_not_durable_yet_is_not_settled_before_it_is() -> None:
    home = Home()
    home.overlay.syncs = False
    home.hear(5, 1, 0, is_first=True)
    home.hear(6, 1, 0, is_first=True)
    home.hear(6, 2, asks=True)
    assert home.said() == [(6, 0, False)]
    home.overlay.sync()
    assert home.said() == [(6, 1, False)]
    assert home.logged == [0]


def test_what_is_still_on_its_way_from_an_earlier_round_is_ignored() -> None:
    home = Home()
    home.hear(6, 1, 0, is_first=True)
    home.hear(5, 1, 7, is_first=True)
    home.hear(5, 2, 8)
    home.hear(5, 2, asks=True)
    home.hear(6, 2, 1)
    assert home.logged == [0, 1]
    assert home.counts["carry_overtaken"] == 3


def test_a_frame_that_comes_twice_within_a_round_is_taken_once() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 2, 1)
    home.hear(5, 2, 1)
    assert home.logged == [0, 1]
    assert home.counts["carry_broken"] == 0


def test_what_an_earlier_round_still_waits_for_is_dropped_by_the_next_one() -> None:
    home = Home()
    home.overlay.syncs = False
    home.hear(5, 1, 0, 1, is_first=True)
    (before,) = home.visitors()
    home.hear(6, 1, 0, 1, is_first=True, asks=True)
    assert before.is_gone
    home.overlay.sync()
    assert home.said() == [(6, 2, False)], "the former round is not answered"
    assert home.logged == [0, 1]


def test_publishers_and_doors_do_not_get_in_each_others_way() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(9, 1, 10, is_first=True, publisher=b"you")
    home.hear(3, 1, 0, is_first=True, host="ib")
    home.hear(5, 2, 1)
    home.hear(3, 2, 1, 2, host="ib")
    assert home.logged == [0, 10, 1, 2]
    assert len(home.visitors()) == 3


def test_a_best_effort_pubend_takes_what_comes_after_a_gap() -> None:
    home = Home(guaranteed=False)
    reader = home.overlay.client("pb")
    reader.subscribe(1, "")
    home.overlay.wait(1_000)
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 3, 2)
    home.hear(5, 2, 1)
    home.hear(5, 4, 3)
    assert reader.numbers() == [0, 2, 3], "and nothing that comes too late"


def test_what_a_best_effort_publisher_left_behind_at_another_door_is_dropped() -> None:
    home = Home(guaranteed=False)
    reader = home.overlay.client("pb")
    reader.subscribe(1, "")
    home.overlay.wait(1_000)
    home.hear(5, 1, 0, is_first=True)
    home.hear(6, 3, 2, 3, is_first=True, host="ib")
    home.hear(5, 2, 1, 2, 3)
    home.hear(6, 5, 4, host="ib")
    assert reader.numbers() == [0, 2, 3, 4], "in order, and nothing twice"
    assert home.overlay.brokers["pb"].status().counts["overtaken"] == 3
    home.hear(5, 1, 9, is_first=True, publisher=b"somebody else")
    assert reader.numbers()[4:] == [9]


def test_a_publisher_that_begins_beyond_what_the_log_knows_is_believed_and_counted() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(6, 10, 9, is_first=True)
    assert home.logged == [0, 9]
    assert home.overlay.brokers["pb"]._guaranteed.logs["pb.a"].jumped == 1


# --- in between


def test_brokers_in_between_keep_nothing_and_pass_on_everything() -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS)
    publisher = Publisher(overlay, "sb", "pb.a")
    publisher.publish(0, 1, 2)
    overlay.run(1_000, publisher)
    between = overlay.brokers["ib"]
    assert between._visitors.counts["carry_passed"] == 3
    assert (between._visitors._visitors, between._intake.carrying._sources) == ({}, {})
    assert publisher.acknowledged == 3


def test_what_finds_no_way_on_is_dropped_and_counted() -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS)
    overlay.wait(1_000)
    overlay.cut("pb", "ib")
    before = overlay.brokers["ib"]._visitors.counts["carry_passed"]
    overlay.brokers["ib"]._visitors.on_carry(
        f.Carry("pb.a", "sb", ME, "feed", (1, 0, 1), [b"x" * 30]), "sb", now_ms=overlay.now_ms
    )
    counts = overlay.brokers["ib"]._visitors.counts
    assert (counts["carry_passed"], counts["carry_dropped"]) == (before, 1)


# --- bounds, and neighbours that cannot be trusted


def test_the_visitor_that_was_silent_longest_is_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors_module, "_VISITORS_MAX", 3)
    home = Home()
    for number in range(3):
        home.hear(5, 1, number, is_first=True, publisher=b"%d" % number)
    home.hear(5, 2, 10, publisher=b"0")
    home.hear(5, 1, 3, is_first=True, publisher=b"3")
    assert [each.publisher for each in home.visitors()] == [b"2", b"0", b"3"]
    home.said()
    home.hear(5, 2, 11, publisher=b"1")
    assert home.said()[-1][2], "it begins anew, and nothing is lost"
    home.hear(6, 2, 11, is_first=True, publisher=b"1")
    assert home.logged == [0, 1, 2, 10, 3, 11]


def test_more_than_may_wait_breaks_the_round_until_some_of_it_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors_module, "_BYTES_MAX", 1_000)
    home = Home()
    home.overlay.syncs = False
    for number in range(100):
        home.hear(5, 1 + number, number, is_first=number == 0)
    (visitor,) = home.visitors()
    assert visitor.is_rewinding
    assert visitor.unpaid_bytes < 1_000
    answers = home.answers()
    assert (answers[-1].settled, answers[-1].is_broken) == (0, True)
    assert answers[0].reason == "broker pb has no room for more that waits for pubend pb.a"
    home.overlay.syncs = True
    home.overlay.sync()
    home.overlay.wait(1_000)
    taken = visitor.settled
    assert 0 < taken < 100
    assert home.logged == list(range(taken))
    home.hear(6, 1 + taken, taken, is_first=True)
    assert home.logged == list(range(taken + 1))


def test_a_pubend_for_which_too_much_waits_leaves_room_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors_module, "_BYTES_MAX", 2_000)
    home = Home(pubends=("pb.a", "pb.b"))
    home.overlay.syncs = False
    for number in range(100):
        home.hear(5, 1 + number, number, is_first=number == 0)
    assert home.said()[-1] == (5, 0, True)
    home.hear(5, 1, 100, is_first=True, pubend="pb.b")
    home.hear(5, 2, 101, pubend="pb.b", asks=True)
    home.overlay.syncs = True
    home.overlay.sync()
    (answer,) = (each for each in home.answers() if each.pubend == "pb.b")
    assert (answer.settled, answer.is_broken) == (2, False)
    assert home.overlay.logged("pb.b") == [100, 101]


def test_who_has_nothing_waiting_is_let_in_beside_those_that_wait_until_twice_as_much_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(visitors_module, "_BYTES_MAX", 1_000)
    home = Home()
    home.overlay.syncs = False
    for number in range(100):
        home.hear(5, 1 + number, number, is_first=number == 0)
    newcomers = [b"%d" % number for number in range(100)]
    for publisher in newcomers:
        home.hear(5, 1, 100, is_first=True, publisher=publisher)
    let_in = [visitor for visitor in home.visitors() if not visitor.is_rewinding]
    assert [visitor.publisher for visitor in let_in] == newcomers[: len(let_in)]
    assert 10 < len(let_in) < 50
    home.hear(5, 2, 101, publisher=newcomers[0])
    assert let_in[0].is_rewinding, "of this one something waits"


def test_a_message_that_is_larger_than_all_that_may_wait_is_taken_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors_module, "_BYTES_MAX", 10)
    home = Home()
    home.overlay.syncs = False
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 1, 1, is_first=True, publisher=b"other")
    home.overlay.syncs = True
    home.overlay.sync()
    assert home.logged == [0]


def test_bodies_that_are_no_messages_end_the_connection_of_the_neighbour_that_sent_them() -> None:
    home = Home()
    before = home.overlay.brokers["pb"]._connections.links["ib"].connection
    home.overlay.lie("pb", "ib", f.Carry("pb.a", "sb", ME, "feed", (5, 0, 1), [b"not a message at all"], is_first=True))
    assert before not in home.overlay.brokers["pb"]._connections.peers
    assert home.logged == []
    home.overlay.check_invariants()


def test_bodies_that_are_too_small_to_be_messages_go_no_further_than_the_next_broker() -> None:
    overlay = chain("pb", "ib", "sb", guaranteed=True, silent_ms=PATIENT_MS)
    overlay.wait(1_000)
    before = overlay.brokers["ib"]._connections.links["sb"].connection
    overlay.lie("ib", "sb", f.Carry("pb.a", "sb", ME, "feed", (5, 0, 1), [bytes(30), b""], is_first=True))
    assert before not in overlay.brokers["ib"]._connections.peers
    assert "pb" in overlay.brokers["ib"]._connections.links
    assert overlay.logged("pb.a") == []


def test_messages_from_a_neighbour_that_does_not_lead_to_their_door_are_ignored() -> None:
    overlay = ring("pb", "ab", "sb", "cb", guaranteed=True, silent_ms=PATIENT_MS)
    overlay.wait(1_000)
    place = overlay.brokers["pb"].rooms.router.place_in("pb.a")
    right = place.towards("sb")
    wrong = "cb" if right == "ab" else "ab"
    body = encode_body(MessageId(7, 3, overlay.now_ms, 1), Message({"number": 1}))
    frame = f.Carry("pb.a", "sb", ME, "feed", (5, 0, 1), [body], is_first=True)
    before = overlay.brokers["pb"].status().counts["off_path"]
    overlay.lie("pb", wrong, frame)
    assert overlay.logged("pb.a") == []
    assert overlay.brokers["pb"].status().counts["off_path"] == before + 1
    assert right is not None
    overlay.lie("pb", right, frame)
    assert overlay.logged("pb.a") == [1]


def test_nobody_carries_in_the_name_of_the_home_itself_or_of_a_broker_that_there_is_not() -> None:
    home = Home()
    for host in ("pb", "zz"):
        home.hear(5, 1, 0, is_first=True, host=host)
    assert home.logged == []
    assert home.visitors() == []


@pytest.mark.parametrize("frame", [f.Carry("pb.a", "sb", ME, "feed", (1, 0, 1), []), f.Carried("pb.a", "sb", ME, 1, 1)])
def test_clients_cannot_carry(frame: f.Frame) -> None:
    overlay = chain("pb", "sb", guaranteed=True)
    client = overlay.client("pb")
    client.say(frame)
    assert client.closed is not None
    assert client.closed.code == "protocol"


def test_visitors_behind_a_broker_that_is_gone_are_forgotten() -> None:
    home = Home()
    home.hear(5, 1, 0, is_first=True)
    home.hear(5, 1, 1, is_first=True, publisher=b"you", host="ib")
    home.overlay.undelay("pb", "ib")
    home.overlay.cut("ib", "sb")
    home.overlay.wait(500)
    assert [each.host for each in home.visitors()] == ["ib"]
    home.overlay.cut("pb", "ib")
    home.overlay.wait(500)
    assert home.visitors() == []


def test_a_home_that_restarts_knows_what_it_had_but_no_visitors() -> None:
    home = Home()
    overlay: Overlay = home.overlay
    home.hear(5, 1, 0, is_first=True)
    overlay.crash("pb")
    overlay.wait(10)
    overlay.start("pb")
    overlay.delayed.clear()
    overlay.link("pb", "ib")
    overlay.wait(1_000)
    overlay.delay("pb", "ib")
    home.hear(5, 2, 1)
    assert home.said()[-1] == (5, 0, True)
    home.hear(6, 1, 0, 1, is_first=True)
    assert home.logged == [0, 1]
