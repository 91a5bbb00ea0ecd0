"""Messages that a group gives up arrive once, in order, at the pubend for dead letters, before they are done."""

from __future__ import annotations

from penstock.broker.pubend.dead_letters import DeadLetters, dead_letter
from penstock.broker.pubend.log import PubendLog
from penstock.broker.settings import BrokerSettings
from penstock.model.body import decode_message, encode_body
from penstock.model.limits import ATTRIBUTES_MAX
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.frames import Carried, Carry
from penstock.protocol.work_frames import Verdict
from penstock.work.group import Group
from penstock.work.ledger import Ledger, Task
from penstock.work.terms import Terms

KEY = ("p", "g")


def body(number: int) -> bytes:
    return encode_body(MessageId(1, 2, 3, number), Message({"number": number}, b"payload"))


class Office:
    """A group whose messages are all refused, and where its dead letters go."""

    def __init__(self, *pubends: str, made: int = 7) -> None:
        settings = BrokerSettings("pb", pubends=("p", *pubends))
        logs = {name: PubendLog(name, settings) for name in settings.pubends}
        self.sent: list[Carry] = []
        self.published: list[tuple[str, bytes, int, int]] = []
        self.commit: int | None = 5
        self.letters = DeadLetters("pb", logs, publish=self._publish, send=self.sent.append)
        self.group = Group(Ledger(Terms("g", "TRUE", deliveries_max=1), "", 0, made), now_ms=0)
        self.group.join(b"m", "sb", "worker", 1, 1_000, now_ms=0)

    def _publish(self, pubend: str, publisher: bytes, first: int, bodies: list[bytes], _now_ms: int) -> int | None:
        self.published.append((pubend, publisher, first, len(bodies)))
        return self.commit

    def kill(self, count: int) -> None:
        start = self.group.cursor
        messages = [(tick, body(tick), {"number": tick}) for tick in range(start, start + count)]
        self.group.look(messages, start + count - 1, now_ms=0)
        for tasks in self.group.hand_out(now_ms=0).values():
            for task in tasks:
                self.group.judge(b"m", task.tick, 1, Verdict.REFUSED, 0, "no", now_ms=0)

    def look(self, now_ms: int = 0, pubend: str = "dead") -> None:
        self._bury()
        self.letters.look(KEY, self.group, pubend, now_ms=now_ms)
        self._bury()

    def _bury(self) -> None:
        for key, last in self.letters.take_arrived():
            assert key == KEY
            for number in [each for each in self.group.dying if each <= last]:
                self.group.bury(number)


def test_a_dead_letter_is_the_message_and_what_became_of_it() -> None:
    task = Task(9, attempts=3, history=("attempt 2: refused", "attempt 3: its time was over"), body=body(4))
    message_id, message = decode_message(dead_letter("p", "g", task))
    assert (message_id, message.payload) == (MessageId(1, 2, 3, 4), b"payload")
    assert message.attributes == {
        "number": 4,
        "dead_group": "g",
        "dead_pubend": "p",
        "dead_tick": 9,
        "dead_attempts": 3,
        "dead_reason": "attempt 3: its time was over",
        "dead_history": "attempt 2: refused; attempt 3: its time was over",
    }


def test_a_message_with_as_many_attributes_as_there_can_be_becomes_one_too() -> None:
    full: dict[str, AttributeValue] = {f"a{number}": number for number in range(ATTRIBUTES_MAX)}
    task = Task(9, body=encode_body(MessageId(1, 2, 3, 4), Message(full, b"payload")))
    _, message = decode_message(dead_letter("p", "g", task))
    assert message.payload == b"payload"
    assert message.attributes["dead_pubend"] == "p"


def test_they_are_carried_in_order_and_done_when_they_are_durable_there() -> None:
    office = Office()
    office.kill(20)
    office.look()
    (first,) = office.sent
    assert (first.pubend, first.first, len(first.bodies), first.is_first) == ("dead", 1, 16, True)
    office.look(now_ms=1)
    assert len(office.sent) == 1, "one at a time"
    answer = Carried("dead", "pb", first.publisher, first.round, 15)
    assert office.letters.on_carried(answer)
    assert not office.letters.on_carried(Carried("dead", "pb", b"somebody else", first.round, 16))
    assert len(office.group.dying) == 20
    assert office.letters.on_carried(Carried("dead", "pb", first.publisher, first.round, 16))
    office.look(now_ms=2)
    assert sorted(office.group.dying) == [17, 18, 19, 20]
    assert (office.sent[1].first, office.sent[1].publisher) == (17, first.publisher)


def test_what_is_not_answered_is_sent_again_in_a_new_round() -> None:
    office = Office()
    office.kill(1)
    office.look()
    assert office.letters.next_deadline() == 2_000
    assert office.letters.late(now_ms=1_999) == []
    assert office.letters.late(now_ms=2_000) == [KEY]
    office.look(now_ms=2_000)
    first, second = office.sent
    assert second.round > first.round
    assert (second.first, second.bodies) == (first.first, first.bodies)
    late = Carried("dead", "pb", first.publisher, first.round, 1)
    assert office.letters.on_carried(late)
    office.look(now_ms=2_001)
    assert len(office.group.dying) == 1, "an earlier round"


def test_rounds_go_on_above_those_of_a_former_life_whose_clock_was_ahead() -> None:
    office = Office()
    office.kill(1)
    office.look(now_ms=1_000)
    publisher = office.sent[0].publisher
    assert office.letters.on_carried(Carried("dead", "pb", publisher, 3_600_000, 0, is_late=True))
    office.look(now_ms=3_000)
    assert office.sent[1].round > 3_600_000
    assert office.letters.on_carried(Carried("dead", "pb", publisher, office.sent[1].round, 1))
    office.look(now_ms=3_001)
    assert not office.group.dying


def test_at_a_pubend_of_the_same_broker_they_wait_for_the_commit_or_for_room() -> None:
    office = Office("dead")
    office.kill(2)
    office.commit = None
    office.look()
    assert [each[0::2] for each in office.published] == [("dead", 1)]
    office.letters.on_committed(100)
    office.look(now_ms=1)
    assert len(office.group.dying) == 2
    office.commit = 5
    office.look(now_ms=2_000)
    office.letters.on_committed(4)
    office.look(now_ms=2_001)
    assert len(office.group.dying) == 2
    office.letters.on_committed(5)
    office.look(now_ms=2_002)
    assert len(office.group.dying) == 0
    office.commit = 0
    office.kill(1)
    office.look(now_ms=2_003)
    assert len(office.group.dying) == 0, "it was durable before"
    assert office.sent == []


def test_without_a_pubend_they_wait() -> None:
    office = Office()
    office.kill(1)
    office.look(pubend="")
    assert office.sent == []
    assert office.letters.next_deadline() is None
    office.look()
    office.letters.forget(KEY)
    assert office.letters.next_deadline() is None


def test_a_group_that_was_made_anew_is_another_publisher() -> None:
    publishers = []
    for made in (7, 8):
        office = Office(made=made)
        office.kill(1)
        office.look()
        publishers.append(office.sent[0].publisher)
    assert publishers[0] != publishers[1]
