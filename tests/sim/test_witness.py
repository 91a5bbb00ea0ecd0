"""The witness writes down what was said on each line, and notices what neither brokers nor sessions may do."""

from __future__ import annotations

from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.protocol.frames import (
    Deliver,
    Frame,
    Horizons,
    Lost,
    Migrate,
    PubendNames,
    Refused,
    Subscribe,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from penstock.session.inbox import Inbox, Wanted
from penstock.session.inboxes import Inboxes
from penstock.session.settings import ClientSettings
from penstock.sim.clock import Clock
from penstock.sim.records import SubscriptionRecord
from penstock.sim.witness import Witness, unpacked

ONE = (1).to_bytes(4)


class Case:
    """A witness of one subscription, which is asked for on line 1."""

    def __init__(self, given_up: dict[str, int] | None = None, **options: object) -> None:
        self.clock = Clock()
        self.witness = Witness(self.clock, lambda: given_up or {}, lambda _: None)
        self.record = SubscriptionRecord(1, "a = 1", **options)  # type: ignore[arg-type]
        self.inbox: Inbox = Inboxes(ClientSettings()).add(
            Wanted("a = 1", self.record.asked, durable=self.record.durable)
        )
        self.witness.add(self.record, self.inbox)
        self.begin(1)
        self.witness.settle(1)
        self.ask(1)

    def begin(self, line: int) -> None:
        self.hear(line, Welcome(2, f"b{line}", "o", 1, 1, 0, 1_000, 1_000), PubendNames(((0, "p"), (1, "loose"))))

    def ask(self, line: int, **stated: int) -> None:
        self.witness.on_said(line, Subscribe(1, "a = 1", tuple(stated.items()), resumes=bool(stated)))

    def hear(self, line: int, *frames: Frame) -> None:
        assert [*self.witness.hear(line, frames)] == [*frames]

    def deliver(self, line: int, *ticks: int, pubend: int = 0) -> list[str]:
        self.hear(line, *(Deliver(pubend, [tick], [ONE], [b""]) for tick in ticks))
        return self.witness.breaches


def test_messages_come_in_ascending_order_on_each_line() -> None:
    case = Case()
    assert case.deliver(1, 5, 7, 9) == []
    assert case.deliver(1, 9, 1, pubend=1) == [], "where nothing is guaranteed, ticks are no positions"
    assert len(case.deliver(1, 9)) == 1
    assert "p 8 came on line 1 behind 9" in case.deliver(1, 8)[-1]


def test_nothing_comes_below_the_position_from_which_a_subscription_goes_on() -> None:
    case = Case()
    case.begin(2)
    case.ask(2, p=8)
    assert case.deliver(2, 8) == []
    case.begin(3)
    case.ask(3, p=8)
    assert "p 7 came on line 3" in case.deliver(3, 7)[0]


def test_a_session_may_drop_only_what_came_on_another_line() -> None:
    case = Case()
    case.deliver(1, 5, 7)
    case.begin(2)
    case.ask(2, p=5)
    case.deliver(2, 5, 7, 9)
    case.witness.check_repeated(2)
    assert case.witness.breaches == []
    case.witness.check_repeated(3)
    assert "dropped a delivery that came on no other line" in case.witness.breaches[0]


def test_a_session_may_drop_what_lies_before_the_start_that_the_old_line_has_named() -> None:
    """The new line begins earlier; what it brings below that start may come before it takes over, and after."""
    case = Case()
    case.begin(2)
    case.ask(2)
    case.hear(2, Subscribed(1, "a = 1", starts=(("p", 3),)))
    case.hear(1, Subscribed(1, "a = 1", starts=(("p", 8),)))
    case.deliver(2, 4)
    case.witness.check_repeated(1)
    case.witness.settle(2)
    case.deliver(2, 6)
    case.witness.check_repeated(2)
    assert case.witness.breaches == []
    case.deliver(2, 8)
    case.witness.check_repeated(3)
    assert "dropped a delivery that came on no other line" in case.witness.breaches[0]


def test_a_session_may_drop_what_somebody_else_has_had_under_its_name() -> None:
    """A client that knows nothing of that moves: its old line brings on what the new one passes by."""
    for durable, breaches in (("n", 0), ("", 1)):
        case = Case(durable=durable)
        case.inbox.positions.on_start("p", 7)
        case.begin(2)
        case.ask(2, p=7)
        case.hear(2, Horizons(0, 1_000, ONE, is_only=True))
        case.deliver(1, 8)
        case.witness.check_repeated(1)
        assert len(case.witness.breaches) == breaches
        case.deliver(1, 1_000)
        case.witness.check_repeated(2)
        assert len(case.witness.breaches) == breaches + 1


def test_what_comes_for_nobody_out_of_order_is_a_breach_and_for_a_withdrawn_one_is_none() -> None:
    case = Case()
    case.hear(1, Deliver(0, [5], [(9).to_bytes(4)], [b""]), Deliver(0, [5], [(9).to_bytes(4)], [b""]))
    assert "for no subscription" in case.witness.breaches[0]
    case.inbox.state = "closing"
    case.deliver(1, 5, 4)
    assert len(case.witness.breaches) == 1


def test_a_confirmation_begins_a_period_and_says_what_had_been_given_up() -> None:
    case = Case({"p": 5})
    case.hear(1, Subscribed(1, "a = 1", starts=(("p", 7),)))
    assert case.record.is_confirmed
    assert case.record.visits[0].starts["p"].trimmed_below == 5
    case.inbox.positions.on_start("p", 7)
    case.witness.give_up(case.inbox)
    assert case.record.periods[0].to_us == 0
    assert (case.record.visits[0].reached, case.record.ended_us) == ({"p": 7}, 0)


def test_what_was_said_on_the_new_line_of_a_move_counts_when_it_takes_over() -> None:
    case = Case()
    case.hear(1, Subscribed(1, "a = 1", starts=(("p", 7),)))
    case.begin(2)
    case.ask(2, p=9)
    case.hear(2, Subscribed(1, "a = 1", starts=(("p", 9),)))
    assert [each.broker for each in case.record.visits] == ["b1"]
    case.witness.settle(2)
    assert [(each.broker, each.stated) for each in case.record.visits] == [("b1", {}), ("b2", {"p": 9})]
    assert len(case.record.periods) == 1, "it was never out of force"


def test_one_that_is_not_confirmed_on_the_line_that_takes_over_is_out_of_force() -> None:
    case = Case()
    case.hear(1, Subscribed(1, "a = 1", starts=(("p", 7),)))
    case.begin(2)
    case.ask(2, p=9)
    case.witness.lose()
    case.witness.settle(2)
    assert not case.record.is_confirmed
    assert len(case.record.visits) == 2


def test_how_far_behind_a_client_was_is_not_forgotten_by_a_second_horizon() -> None:
    """Somebody else has got further with its name: the judge must know from where on it was not the client's turn."""
    case = Case(durable="n")
    case.inbox.positions.on_start("p", 7)
    case.begin(2)
    case.ask(2, p=7)
    for tick in (1_000, 2_000):
        case.hear(2, Horizons(0, tick, ONE, is_only=True))
        case.inbox.positions.on_horizon("p", tick)
    assert case.record.visits[-1].behind == {"p": 7}


def test_a_refusal_is_right_where_the_position_was_given_up() -> None:
    for asked, is_right in ((4, True), (5, False)):
        case = Case({"p": 5}, asked={"p": asked})
        case.witness.on_said(1, Subscribe(1, "a = 1", (("p", asked),)))
        case.hear(1, Refused("subscribe", 1, "position 4 is not kept any more"))
        case.inbox.refuse("position 4 is not kept any more")
        case.witness.on_refused(case.inbox)
        assert (case.record.refused_rightly, case.witness.refused) == (is_right, 1)


def test_the_dead_remember_nothing_but_the_records_stay() -> None:
    case = Case()
    case.deliver(1, 5)
    case.witness.die()
    assert case.record.ended_us == 0
    case.witness.add(SubscriptionRecord(2, "a = 1"), case.inbox)
    assert case.deliver(1, 5) == [], "it is another life"


def test_what_else_brokers_say_is_kept() -> None:
    case = Case()
    case.hear(1, Lost(0, 3, 4, (1,)), Migrate(7, 1, "b2", "x"), Unsubscribed(1))
    case.hear(2, PubendNames(((0, "p"),)), Lost(0, 3, 4, (1,)))
    assert [each[1:] for each in case.witness.lost] == [("p", 3, 4, (1,))], "on other lines it is no news"
    assert (case.witness.told, case.record.gone_us) == ({"b2": None}, 0)


def test_numbers_are_unpacked() -> None:
    assert unpacked(ONE + (258).to_bytes(4)) == (1, 258)


def test_a_session_may_drop_what_had_expired_by_the_clock_of_another_lines_broker() -> None:
    short, lasting = (
        encode_body(MessageId(1, 1, 1_000, number), Message({"a": 1}, expires=lifetime))
        for number, lifetime in ((9, 1.0), (10, None))
    )
    for body, breaches in ((short, 0), (lasting, 1)):
        case = Case()
        case.inbox.positions.on_start("p", 1)
        case.inbox.positions.on_horizon("p", 20)
        case.begin(2)
        case.ask(2)
        case.hear(2, Deliver(0, [9], [ONE], [body]))
        case.witness.check_repeated(1)
        assert len(case.witness.breaches) == breaches


def test_a_session_may_drop_a_best_effort_message_that_another_broker_brings_again() -> None:
    case = Case()
    case.deliver(1, 5, pubend=1)
    case.begin(2)
    case.ask(2)
    case.deliver(2, 5, pubend=1)
    case.witness.check_repeated(1)
    assert case.witness.breaches == []
    case.deliver(2, 6, pubend=1)
    case.witness.check_repeated(2)
    assert "dropped a delivery that came on no other line" in case.witness.breaches[0]


def test_every_broker_that_brings_a_message_with_a_lifetime_is_noted() -> None:
    case = Case()
    case.clock.now_us = 7_000
    case.begin(2)
    case.ask(2, p=8)
    short = encode_body(MessageId(1, 1, 1_000, 9), Message({"a": 1}, expires=1.0))
    lasting = encode_body(MessageId(1, 1, 1_000, 10), Message({"a": 1}))
    for line in (1, 2):
        case.hear(line, Deliver(0, [8, 9], [ONE, ONE], [short, lasting]))
    assert case.witness.carriers == {(1, "p", 8): [("b1", 0), ("b2", 7_000)]}
