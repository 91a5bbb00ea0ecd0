from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.model.limits import SETTLED_MAX
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import Acknowledge, Horizons, Settle, Settled, Subscribe
from penstock.session.inbox import Inbox, Wanted
from penstock.session.inboxes import MESSAGES_MAX, Inboxes, Reporting, learn_names, subscribe_frame
from penstock.session.positions import LostTicks
from penstock.session.received import BestEffortReceived, Received
from penstock.session.settings import ClientSettings
from penstock.session.work import Shared


def numbers(*inboxes: Inbox) -> bytes:
    return b"".join(inbox.number.to_bytes(4) for inbox in inboxes)


def ready(inboxes: Inboxes, **starts: int) -> Inbox:
    inbox = inboxes.add(Wanted("TRUE"))
    inbox.on_subscribed("TRUE", (), tuple(starts.items()))
    return inbox


def begun(inboxes: Inboxes, **starts: int) -> Inbox:
    """A subscription that the broker has named on its pubends, so that horizons of all are meant for it, too."""
    inbox = ready(inboxes, **starts)
    for pubend in starts:
        inbox.positions.begin(pubend)
    return inbox


def deliver(inboxes: Inboxes, tick: int, *to: Inbox, pubend: str = "p") -> list[int]:
    woken: dict[int, Inbox] = {}
    inboxes.deliver(numbers(*to), Received(pubend, tick, b"body"), woken)
    inboxes.check_invariants()
    return [*woken]


def test_a_delivery_reaches_whom_it_names_and_wakes_them() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two, three = (ready(inboxes, p=0) for _ in range(3))
    assert deliver(inboxes, 1, one) == [1]
    assert deliver(inboxes, 2, one, three) == [1, 3]
    assert [len(each.queue) for each in (one, two, three)] == [2, 0, 1]


def test_a_repetition_is_dropped_and_counted() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two = ready(inboxes, p=5), ready(inboxes, p=0)
    assert deliver(inboxes, 4, one, two) == [2]
    assert deliver(inboxes, 4, two) == []
    assert deliver(inboxes, 5, one, two) == [1, 2]
    assert inboxes.repeated == 2


def loose(inboxes: Inboxes, tick: int, *, together: bool = False) -> bool:
    """Whether a message of a best-effort pubend is taken."""
    woken: dict[int, Inbox] = {}
    message = BestEffortReceived("p", tick, b"body")
    if together:
        inboxes.deliver_all(numbers(*inboxes), [message], woken)
    else:
        inboxes.deliver(numbers(*inboxes), message, woken)
    return bool(woken)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("count", [1, 2])
def test_a_best_effort_message_that_comes_again_over_another_connection_is_dropped(count: int, together: bool) -> None:
    inboxes = Inboxes(ClientSettings())
    for _ in range(count):
        ready(inboxes)
    for tick in (5, 6):
        assert loose(inboxes, tick, together=together)
    # On the same connection nothing comes twice: the pubend's clock was set back.
    assert loose(inboxes, 5, together=together)
    inboxes.on_disconnected()
    assert not loose(inboxes, 5, together=together)
    inboxes.on_disconnected()
    assert not loose(inboxes, 6, together=together)
    assert loose(inboxes, 4, together=together)
    assert loose(inboxes, 7, together=together)
    assert inboxes.repeated == 2 * count


@given(
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=6), max_size=6),
    st.lists(st.sampled_from([1, 2, 3]), unique=True),
    st.sampled_from([Received, BestEffortReceived]),
)
@example([[1, 2], [2, 3]], [1, 2], Received)
@example([[3, 2, 2]], [1], Received)
def test_messages_delivered_together_arrive_as_one_by_one(
    frames: list[list[int]], to: list[int], kind: type[Received]
) -> None:
    together, singly = Inboxes(ClientSettings()), Inboxes(ClientSettings())
    for inboxes in (together, singly):
        ready(inboxes, p=0)
        ready(inboxes, p=5)
    named = b"".join(number.to_bytes(4) for number in to)
    woken: tuple[dict[int, Inbox], dict[int, Inbox]] = {}, {}
    for ticks in frames:
        received = [kind("p", tick, b"body" * tick) for tick in ticks]
        together.deliver_all(named, received, woken[0])
        for each in received:
            singly.deliver(named, each, woken[1])
        together.check_invariants()
    assert [*woken[0]] == [*woken[1]]
    assert together.repeated == singly.repeated
    for one, other in zip(together, singly, strict=True):
        assert [*one.queue] == [*other.queue]
        assert (one.next_ticks, one.recent) == (other.next_ticks, other.recent)


def test_pubends_that_guarantee_nothing_may_count_from_anywhere_and_move_no_position() -> None:
    inboxes = Inboxes(ClientSettings())
    inbox = ready(inboxes, p=5)
    for tick in (7, 3, 3):
        for to in (numbers(inbox), numbers(inbox, inbox)):
            woken: dict[int, Inbox] = {}
            inboxes.deliver(to, BestEffortReceived("p", tick, b"body"), woken)
            assert [*woken] == [1]
    assert inboxes.repeated == 0
    frame = subscribe_frame(inbox)
    assert isinstance(frame, Subscribe)
    assert frame.positions == (("p", 5),)


def test_one_that_is_withdrawn_takes_nothing_more() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two = begun(inboxes, p=0), begun(inboxes, p=0)
    inboxes.close(one)
    assert deliver(inboxes, 1, one, two) == [2]
    inboxes.on_horizons(Horizons(0, 9), "p")
    assert inboxes.acknowledge() == Acknowledge(((0, 9),))
    inboxes.forget(one)
    inboxes.check_invariants()
    assert (inboxes.get(1), inboxes.get(2), [*inboxes]) == (None, two, [two])


def test_horizons_move_those_they_mean() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two, three = (begun(inboxes, p=1) for _ in range(3))
    asked = inboxes.add(Wanted("TRUE", {"p": 1}))
    inboxes.on_horizons(Horizons(4, 10, numbers(two)), "p")
    assert [each.positions.get("p") for each in (one, two, three, asked)] == [10, 1, 10, 1]
    inboxes.on_horizons(Horizons(4, 7, numbers(two, one), is_only=True), "p")
    assert [each.positions.get("p") for each in (one, two, three, asked)] == [10, 7, 10, 1]


def test_a_horizon_of_all_is_for_those_that_were_named_on_its_pubend() -> None:
    inboxes = Inboxes(ClientSettings())
    older, newer = begun(inboxes, p=1), ready(inboxes, p=4, q=1)
    inboxes.on_horizons(Horizons(5, 7, numbers(newer), is_only=True), "q")
    inboxes.on_horizons(Horizons(4, 90), "p")
    assert [each.positions.known() for each in (older, newer)] == [{"p": 90}, {"p": 4, "q": 7}]
    inboxes.on_horizons(Horizons(5, 8), "q")
    assert [each.positions.known() for each in (older, newer)] == [{"p": 90}, {"p": 4, "q": 8}]
    assert deliver(inboxes, 5, newer) == [2], "what it was not told of is no repetition"
    inboxes.on_horizons(Horizons(4, 6, numbers(newer), is_only=True), "p")
    inboxes.on_horizons(Horizons(4, 91), "p")
    assert [each.positions.get("p") for each in (older, newer)] == [91, 91]


def test_the_least_position_of_all_is_acknowledged_when_it_has_risen() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two = begun(inboxes, p=1, q=1), begun(inboxes, p=1)
    assert inboxes.acknowledge() is None
    inboxes.on_horizons(Horizons(4, 10, numbers(two)), "p")
    inboxes.on_horizons(Horizons(5, 20, numbers(two)), "q")
    assert inboxes.acknowledge() == Acknowledge(((4, 1),)), "of q, one of them has no position yet"
    assert inboxes.acknowledge() is None
    deliver(inboxes, 30, two)
    inboxes.on_horizons(Horizons(4, 25), "p")
    assert inboxes.acknowledge() == Acknowledge(((4, 25),))
    inboxes.on_horizons(Horizons(4, 25), "p")
    assert inboxes.acknowledge() is None, "that was said"
    inboxes.on_disconnected()
    inboxes.on_horizons(Horizons(0, 25, numbers(one), is_only=True), "p")
    inboxes.on_horizons(Horizons(0, 26), "p")
    assert inboxes.acknowledge() == Acknowledge(((0, 26),)), "numbers are those of a connection"


def test_nothing_is_acknowledged_for_nobody() -> None:
    inboxes = Inboxes(ClientSettings())
    inboxes.on_horizons(Horizons(0, 26), "p")
    assert inboxes.acknowledge() is None


def test_after_a_loss_each_resumes_from_its_own_positions() -> None:
    inboxes = Inboxes(ClientSettings())
    one, two, new = begun(inboxes, p=1, q=3), begun(inboxes, p=1), inboxes.add(Wanted("n = 1", {"q": 8}))
    gone = ready(inboxes)
    inboxes.close(gone)
    deliver(inboxes, 6, one, two)
    inboxes.on_horizons(Horizons(0, 9, numbers(two)), "p")
    assert [*inboxes.on_disconnected().values()] == [one, two, new, gone]
    assert (one.state, gone.state) == ("asked", "closed")
    assert inboxes.subscribes() == [
        Subscribe(1, "TRUE", (("p", 9), ("q", 3)), resumes=True),
        Subscribe(2, "TRUE", (("p", 7),), resumes=True),
        Subscribe(3, "n = 1", (("q", 8),), resumes=False),
    ]


def test_lost_ticks_are_noted_where_they_are_missing() -> None:
    inboxes = Inboxes(ClientSettings())
    behind, ahead, unnamed, closing = (ready(inboxes, p=start) for start in (1, 50, 1, 1))
    inboxes.close(closing)
    assert inboxes.on_lost(LostTicks("p", 10, 19), (1, 2, 4, 99))
    assert ([*behind.lost], [*ahead.lost]) == ([LostTicks("p", 10, 19)], [])
    assert (unnamed.lost_count, closing.lost_count) == (0, 0)
    assert not inboxes.on_lost(LostTicks("q", 10, 19), (1, 2, 3))
    assert not inboxes.on_lost(LostTicks("p", 10, 19), (2,))


def test_lost_ticks_move_only_those_they_concern() -> None:
    inboxes = Inboxes(ClientSettings())
    concerned, other = ready(inboxes, p=10), ready(inboxes, p=10)
    assert inboxes.on_lost(LostTicks("p", 10, 19), (concerned.number,))
    assert [each.positions.get("p") for each in (concerned, other)] == [20, 10]
    assert deliver(inboxes, 12, concerned, other) == [2]


def test_one_that_is_full_blocks_all_until_it_is_read() -> None:
    inboxes = Inboxes(ClientSettings(queue_messages=2))
    inbox = ready(inboxes, p=0)
    for tick in (1, 2):
        deliver(inboxes, tick, inbox)
    inboxes.block_if_full({1: inbox})
    assert inboxes.are_blocking
    inbox.pop()
    inboxes.on_taken(inbox)
    assert not inboxes.are_blocking


def test_durable_subscriptions_are_no_part_of_the_least_position() -> None:
    inboxes = Inboxes(ClientSettings())
    durable = inboxes.add(Wanted("TRUE", durable="app"))
    durable.on_subscribed("TRUE", (), (("p", 1),))
    inboxes.on_names([(4, "p")])
    inboxes.on_horizons(Horizons(4, 5, numbers(durable), is_only=True), "p")
    assert inboxes.acknowledge() is None, "there is no other"
    plain = begun(inboxes, p=1)
    inboxes.on_horizons(Horizons(4, 10, numbers(durable)), "p")
    assert inboxes.acknowledge() == Acknowledge(((4, 10),))
    assert inboxes.reporting.take(now_ms=0) == [Acknowledge(((4, 5),), durable.number)]
    assert plain.receipts is None


def test_what_is_wanted_is_asked_for_again_on_every_connection() -> None:
    inboxes = Inboxes(ClientSettings())
    inbox = inboxes.add(Wanted("TRUE", {}, 0, "earliest", "app"))
    assert inboxes.subscribes() == [Subscribe(1, "TRUE", otherwise=0, missing="earliest", durable="app")]
    inbox.on_subscribed("TRUE", (), (("p", 7),))
    inboxes.on_disconnected()
    again = Subscribe(1, "TRUE", (("p", 7),), resumes=True, otherwise=0, missing="earliest", durable="app")
    assert inboxes.subscribes() == [again]


def test_how_far_pubends_are_is_what_was_heard_last() -> None:
    inboxes = Inboxes(ClientSettings())
    inboxes.on_horizons(Horizons(4, 5, present=9), "p")
    inboxes.on_horizons(Horizons(4, 6, present=8), "p")
    inboxes.on_horizons(Horizons(5, 6), "q")
    assert inboxes.presents == {"p": 9, "q": 6}


def test_where_a_subscription_begins_late_is_known_before_its_first_message() -> None:
    """A pubend that was out of reach begins later; on the next connection its start is that of a continuation."""
    inboxes = Inboxes(ClientSettings())
    inbox = ready(inboxes)
    inboxes.on_horizons(Horizons(0, 5, numbers(inbox), is_only=True, present=5), "p")
    deliver(inboxes, 7, inbox)
    inboxes.on_disconnected()
    inbox.on_subscribed("TRUE", (), (("p", 8),))
    assert inbox.starts == {"p": 5}


PAUSE_MS = 1_000


def durable(number: int = 1, *, start: int = 1) -> Inbox:
    inbox = Inbox(number, Wanted("TRUE", durable="app"), bytes_max=10**6, messages_max=10**6)
    inbox.on_subscribed("TRUE", (), (("p", start),))
    return inbox


def reporting(*names: tuple[int, str]) -> Reporting:
    made = Reporting(pause_ms=PAUSE_MS)
    made.on_names(names or [(4, "p")])
    return made


def read(inbox: Inbox, *ticks: int) -> None:
    """The application takes messages, and comes back."""
    assert inbox.receipts is not None
    for tick in ticks:
        inbox.push(Received("p", tick, b""))
    inbox.pop_many()
    inbox.receipts.settle()


def test_the_broker_is_told_at_once_and_then_after_a_pause() -> None:
    reports, inbox = reporting(), durable()
    assert (reports.next_deadline(), reports.take(now_ms=5)) == (None, [])
    read(inbox, 6)
    assert reports.on_moved(inbox)
    assert reports.take(now_ms=5) == [Acknowledge(((4, 7),), 1)]
    assert reports.next_deadline() is None
    read(inbox, 8)
    assert reports.on_moved(inbox)
    assert not reports.on_moved(inbox), "the time is known"
    assert reports.next_deadline() == 5 + PAUSE_MS
    assert reports.take(now_ms=4 + PAUSE_MS) == []
    assert reports.take(now_ms=5 + PAUSE_MS) == [Acknowledge(((4, 9),), 1)]


def test_very_much_is_told_at_once() -> None:
    reports, inbox = reporting(), durable()
    read(inbox, 1)
    reports.on_moved(inbox)
    reports.take(now_ms=5)
    read(inbox, *range(2, MESSAGES_MAX + 1))
    reports.on_moved(inbox)
    assert reports.take(now_ms=6) == []
    read(inbox, MESSAGES_MAX + 1)
    assert reports.on_moved(inbox)
    assert reports.next_deadline() == 0
    assert reports.take(now_ms=6) == [Acknowledge(((4, MESSAGES_MAX + 2),), 1)]


def test_each_subscription_is_told_of_by_itself() -> None:
    reports, one, two = reporting(), durable(1, start=5), durable(2, start=7)
    for inbox in (two, one):
        reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((4, 7),), 2), Acknowledge(((4, 5),), 1)]


def test_one_that_the_broker_does_not_know_yet_waits() -> None:
    reports, inbox = reporting(), durable()
    inbox.state = "asked"
    assert reports.on_moved(inbox)
    assert (reports.next_deadline(), reports.take(now_ms=0), reports.last(inbox)) == (None, [], [])
    inbox.state = "ready"
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((4, 1),), 1)]
    inbox.state = "closing"
    assert not reports.on_moved(inbox)


def test_a_pubend_without_a_number_waits_for_it() -> None:
    reports, inbox = reporting((0, "other")), durable()
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == []
    reports.on_names([(8, "p"), (9, "p")])
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == [Acknowledge(((8, 1),), 1)]


def test_the_last_word_does_not_wait() -> None:
    reports, inbox = reporting(), durable()
    read(inbox, 3)
    reports.on_moved(inbox)
    reports.take(now_ms=0)
    read(inbox, 4)
    reports.on_moved(inbox)
    assert reports.last(inbox) == [Acknowledge(((4, 5),), 1)]
    assert (reports.last(inbox), reports.next_deadline()) == ([], None)


def test_another_connection_has_other_numbers() -> None:
    reports, inbox = reporting(), durable()
    reports.on_moved(inbox)
    reports.on_disconnected()
    assert reports.take(now_ms=0) == []
    reports.on_moved(inbox)
    assert reports.take(now_ms=0) == []


def test_a_broker_cannot_name_pubends_without_end() -> None:
    known: dict[int, str] = {}
    learn_names(known, ((number, "p") for number in range(100_000)))
    with pytest.raises(ProtocolError, match="more than 100,000 pubends"):
        learn_names(known, [(100_000, "p")])


def test_a_subscription_to_some_pubends_holds_back_no_acknowledgement_of_others() -> None:
    inboxes = Inboxes(ClientSettings())
    begun(inboxes, p=1)
    narrow = inboxes.add(Wanted("TRUE", pubends=("q",)))
    assert subscribe_frame(narrow).pubends == ("q",)
    inboxes.on_horizons(Horizons(4, 10), "p")
    assert inboxes.acknowledge() == Acknowledge(((4, 10),))
    inboxes.on_horizons(Horizons(5, 20), "q")
    assert inboxes.acknowledge() is None, "where it begins there is not known yet"


def test_a_member_of_a_group_holds_back_no_acknowledgement_of_other_subscriptions() -> None:
    inboxes = Inboxes(ClientSettings())
    begun(inboxes, p=1)
    inboxes.add(Wanted("TRUE", shared=Shared("g"))).on_subscribed("TRUE", (), ())
    inboxes.on_horizons(Horizons(4, 10), "p")
    assert inboxes.acknowledge() == Acknowledge(((4, 10),))


# --- single messages that were acknowledged before


def manual(inboxes: Inboxes, **starts: int) -> Inbox:
    inbox = inboxes.add(Wanted("TRUE", durable="D", is_manual=True))
    inbox.on_subscribed("TRUE", (), tuple(starts.items()))
    return inbox


def ticks_of(inbox: Inbox) -> list[int]:
    return [each.tick for each in inbox.queue]


@pytest.mark.parametrize("together", [False, True])
def test_what_was_acknowledged_before_is_passed_by(together: bool) -> None:
    inboxes = Inboxes(ClientSettings())
    one, two = manual(inboxes, p=5), ready(inboxes, p=5)
    inboxes.on_settled(Settled(1, 0, 0, (4, 7, 9, 30)), "p", {})
    to = numbers(one, two)
    if together:
        inboxes.deliver_all(to, [Received("p", tick, b"") for tick in (6, 7, 8, 9)], {})
    else:
        for tick in (6, 7, 8, 9):
            inboxes.deliver(to, Received("p", tick, b""), {})
        deliver(inboxes, 10, one)
    assert ticks_of(one) == ([6, 8] if together else [6, 8, 10])
    assert ticks_of(two) == [6, 7, 8, 9], "it concerns one name only"
    assert one.positions.known()["p"] >= 10
    assert one.settled == {"p": {30}}
    one.pop_many()
    assert one.receipts is not None
    one.receipts.acknowledge_through()
    assert one.acknowledgeable()["p"] >= 10


def test_what_was_acknowledged_before_is_told_anew_on_each_connection() -> None:
    inboxes = Inboxes(ClientSettings())
    one = manual(inboxes, p=5)
    inboxes.on_settled(Settled(1, 0, 0, (7,)), "p", {})
    inboxes.on_disconnected()
    assert one.settled, "another line may be there, which goes on"
    inboxes.subscribes()
    assert one.settled == {}, "the name may have been forgotten meanwhile"
    inboxes.on_settled(Settled(1, 0, 0, (7,)), "p", {})
    inboxes.pause(one)
    inboxes.resume_paused(one)
    assert one.settled == {}


def test_a_broker_that_names_more_than_anybody_keeps_costs_no_more_memory() -> None:
    inboxes = Inboxes(ClientSettings())
    one = manual(inboxes, p=5)
    for first in range(5, 50_005, SETTLED_MAX):
        inboxes.on_settled(Settled(1, 0, 0, tuple(range(first, first + SETTLED_MAX))), "p", {})
    assert len(one.settled["p"]) <= 2 * SETTLED_MAX


def test_what_is_said_of_subscriptions_that_are_not_durable_or_unknown_is_ignored() -> None:
    inboxes = Inboxes(ClientSettings())
    one = ready(inboxes, p=5)
    woken: dict[int, Inbox] = {}
    inboxes.on_settled(Settled(1, 0, 9, (7,)), "p", woken)
    inboxes.on_settled(Settled(7, 0, 9, (7,)), "p", woken)
    assert (one.settled, woken) == ({}, {})


def test_in_order_and_without_anybody_who_waits_a_report_is_enough() -> None:
    inboxes = Inboxes(ClientSettings())
    inboxes.on_names([(0, "p")])
    one = manual(inboxes, p=0)
    assert one.receipts is not None
    for tick in range(1, 3 * MESSAGES_MAX + 1):
        deliver(inboxes, tick, one)
        one.receipts.acknowledge(one.pop())
        inboxes.reporting.on_moved(one)
    assert inboxes.reporting.take(now_ms=5) == [Acknowledge(((0, 3 * MESSAGES_MAX + 1),), 1)]
    assert inboxes.reporting.take(now_ms=5_000) == []


def test_single_messages_are_named_once_in_a_pause_and_at_once_if_somebody_waits() -> None:
    inboxes = Inboxes(ClientSettings())
    inboxes.on_names([(0, "p")])
    one = manual(inboxes, p=0)
    assert one.receipts is not None
    for tick in range(1, 10):
        deliver(inboxes, tick, one)
    messages = one.pop_many()
    one.receipts.acknowledge(messages[5])
    assert inboxes.reporting.on_moved(one)
    assert inboxes.reporting.take(now_ms=5) == [Settle(1, 0, 1, (6,))]
    one.receipts.acknowledge(messages[3])
    inboxes.reporting.on_moved(one)
    assert inboxes.reporting.take(now_ms=6) == []
    assert inboxes.reporting.next_deadline() == 1_005
    one.receipts.wait_for("p", 4)
    assert inboxes.reporting.on_moved(one)
    assert inboxes.reporting.take(now_ms=7) == [Settle(1, 0, 1, (4,))]
    inboxes.on_settled(Settled(1, 0, 1, (4, 6)), "p", {})
    assert inboxes.reporting.take(now_ms=5_000) == []
    for each in messages[:3]:
        one.receipts.acknowledge(each)
    inboxes.reporting.on_moved(one)
    assert inboxes.reporting.last(one) == [Acknowledge(((0, 5),), 1)]
