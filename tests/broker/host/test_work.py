"""Members among a broker's clients: pubends are asked for them, and they get what is for their connection, once."""

from __future__ import annotations

from typing import Any

from penstock.broker.connections import Connections
from penstock.broker.host.work import ASK_MS, Seat, WorkHost, identity_of
from penstock.broker.peers import Peer
from penstock.broker.settings import BrokerSettings
from penstock.protocol.frames import (
    Handed,
    Join,
    Outcomes,
    Subscribed,
    Verdicts,
    WorkAsk,
    WorkJoined,
    WorkLeave,
    WorkOutcomes,
    WorkVerdicts,
)


class Office:
    """The host of one client."""

    def __init__(self, **settings: Any) -> None:
        self.settings = BrokerSettings("sb", **settings)
        self.connections = Connections(self.settings)
        self.now_ms = 0
        self.pubends = ["p", "q"]
        self.reachable = {"p", "q"}
        self.delivered: list[bytes] = []
        self.host = WorkHost(
            self.settings,
            self.connections,
            targets=lambda: self.pubends,
            is_in_reach=self.reachable.__contains__,
            delivered=self._note,
        )
        self.peer = self.connect(1)

    def _note(self, _: Seat, bodies: list[bytes]) -> None:
        self.delivered += bodies

    def connect(self, connection: int) -> Peer:
        peer = self.connections.open(connection, dialled="", certificate="", now_ms=0)
        peer.name = "worker"
        return peer

    def join(self, peer: Peer | None = None, round_: int = 1, now_ms: int = 0, **wishes: Any) -> list[WorkAsk]:
        frame = Join(5, "", "g", b"me", round_, "", 1_000, prefetch=7, **wishes)
        asked = self.host.join(peer or self.peer, frame, "x = 1", is_owned=True, now_ms=now_ms)
        assert all(isinstance(each, WorkAsk) for each in asked)
        return [each for each in asked if isinstance(each, WorkAsk)]

    def joined(self, *pubends: str, round_: int = 1, problem: str = "") -> object:
        return [self.host.on_joined(WorkJoined(pubend, "sb", ME, round_, problem)) for pubend in pubends][-1]

    def hand(
        self, sequence: int, *, life: int = 1, series: int = 1, round_: int = 1, bodies: list[bytes] | None = None
    ) -> None:
        content = [b"body"] if bodies is None else bodies
        numbers = (life, series, round_, sequence)
        self.host.on_handed(Handed("p", "sb", ME, numbers, [1] * len(content), [1] * len(content), content))

    def take(self, peer: Peer | None = None) -> list[object]:
        return [*(peer or self.peer).outbox.take(1 << 30)]

    def received(self) -> int:
        self.now_ms += ASK_MS
        (asked,) = [each for each in self.host.on_deadline(now_ms=self.now_ms) if each.pubend == "p"]
        assert isinstance(asked, WorkAsk)
        return asked.received


ME = identity_of("worker", b"me", 5)


def test_it_asks_every_pubend_for_a_member_and_again_every_second() -> None:
    office = Office()
    first = office.join()
    assert [each.pubend for each in first] == ["p", "q"]
    asked = first[0]
    assert (asked.host, asked.member, asked.client, asked.selector) == ("sb", ME, "worker", "x = 1")
    assert (asked.round, asked.received, asked.prefetch, asked.is_owned) == (1, 0, 7, True)
    assert office.host.next_deadline() == ASK_MS
    assert office.host.on_deadline(now_ms=ASK_MS - 1) == []
    assert office.host.on_deadline(now_ms=ASK_MS) == first


def test_it_says_at_which_pubends_it_knows_that_the_member_belongs() -> None:
    office = Office()
    office.join()
    office.joined("p")
    asked = office.host.on_deadline(now_ms=ASK_MS)
    assert [each.has_joined for each in asked if isinstance(each, WorkAsk)] == [True, False]


def test_it_asks_only_pubends_that_the_member_wants_and_never_the_one_for_dead_letters() -> None:
    assert [each.pubend for each in Office().join(pubends=("q",))] == ["q"]
    assert [each.pubend for each in Office(dead_letters="p").join()] == ["q"]


def test_a_client_is_a_member_when_all_pubends_in_reach_say_so() -> None:
    office = Office()
    office.join()
    office.joined("p")
    assert office.take() == []
    office.joined("q")
    assert office.take() == [Subscribed(5, "x = 1", ())]
    office.joined("p", "q")
    assert office.take() == []


def test_pubends_out_of_reach_are_named_and_asked_when_they_are_back() -> None:
    office = Office()
    office.reachable.discard("q")
    office.join()
    office.joined("p")
    assert office.take() == [Subscribed(5, "x = 1", ("q",))]
    assert [each.pubend for each in office.host.look()] == ["q"]


def test_pubends_that_nobody_knows_are_named_and_asked_when_there_are_some() -> None:
    office = Office()
    assert [each.pubend for each in office.join(pubends=("q", "new"))] == ["q"]
    office.joined("q")
    assert office.take() == [Subscribed(5, "x = 1", ("new",))]
    office.pubends.append("new")
    assert [each.pubend for each in office.host.look()] == ["new"]


def test_a_refusal_ends_the_membership() -> None:
    office = Office()
    office.join()
    refused = office.joined("p", problem="it is full")
    assert isinstance(refused, tuple)
    assert (refused[0].number, refused[1]) == (5, "it is full")
    assert not office.host.has(1, 5)
    assert refused[2] == [WorkLeave("q", "sb", ME, 1, "g", is_final=True)], "where it may belong to the group"
    assert office.joined("q") is None


def test_messages_are_passed_on_once_and_their_number_is_confirmed() -> None:
    office = Office()
    office.join()
    office.hand(1)
    office.hand(1)
    (frame,) = office.take()
    assert isinstance(frame, Handed)
    assert (frame.host, frame.member, frame.bodies) == ("", (5).to_bytes(8), [b"body"])
    assert office.received() == 1
    office.hand(3)
    assert office.received() == 1
    office.hand(2, bodies=[])
    assert office.received() == 3
    assert len(office.take()) == 1
    assert len(office.delivered) == 2


def test_numbers_begin_anew_with_a_life_of_the_pubend_or_a_series() -> None:
    office = Office()
    office.join()
    office.hand(1)
    office.hand(2)
    office.hand(1, series=2)
    assert office.received() == 1
    office.hand(1, life=2)
    assert (office.received(), len(office.take())) == (1, 4)
    # What is still on its way from before counts nowhere.
    office.hand(2, series=2)
    assert (office.received(), office.take()) == (1, [])
    assert office.host.counts["handed_late"] == 1


def test_messages_for_another_connection_are_not_passed_on() -> None:
    office = Office()
    office.join(round_=2)
    office.hand(1, round_=1)
    assert office.take() == []
    assert office.host.counts["handed_late"] == 1


def test_a_client_that_does_not_read_gets_no_more_until_it_does() -> None:
    office = Office(client_outbox_bytes=1_000)
    office.join()
    office.hand(1, bodies=[bytes(600)])
    office.hand(2)
    assert office.received() == 1
    assert len(office.take()) == 1
    office.hand(2)
    assert office.received() == 2


def test_what_comes_early_is_bounded() -> None:
    office = Office()
    office.join()
    for sequence in range(3, 1_100):
        office.hand(sequence)
    assert len(office.take()) == 1_000


def test_verdicts_go_to_the_pubend_and_outcomes_come_back() -> None:
    office = Office()
    office.join()
    said = ((1, 1, 0, 0, ""),)
    assert office.host.verdicts(office.peer, Verdicts(5, "p", said)) == [WorkVerdicts("p", "sb", ME, "g", said)]
    assert office.host.verdicts(office.peer, Verdicts(6, "p", said)) == []
    assert office.host.verdicts(office.peer, Verdicts(5, "elsewhere", said)) == []
    office.host.on_outcomes(WorkOutcomes("p", "sb", ME, ((1, 1, 0, 0),)))
    assert office.take() == [Outcomes(5, "p", ((1, 1, 0, 0),))]
    office.host.on_outcomes(WorkOutcomes("p", "sb", b"nobody", ((1, 1, 0, 0),)))
    assert office.take() == []


def test_pubends_hear_whether_a_member_is_gone_for_good() -> None:
    office = Office()
    office.join()
    assert office.host.leave(1) == [WorkLeave(pubend, "sb", ME, 1, "g", is_final=False) for pubend in ("p", "q")]
    office.join()
    gone = office.host.unsubscribe(office.peer, 5)
    assert gone == [WorkLeave(pubend, "sb", ME, 1, "g", is_final=True) for pubend in ("p", "q")]
    assert office.host.seats_of(1) == 0


def test_a_member_that_has_come_back_is_not_gone_when_its_old_connection_is() -> None:
    office = Office()
    office.join()
    office.join(office.connect(2), round_=2)
    assert office.host.leave(1) == []
    office.hand(1, round_=2)
    assert len(office.take(office.connections.peers[2])) == 1
