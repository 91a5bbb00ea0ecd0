"""The index knows every message on the disks of a world, and what a dead letter must have of its message."""

from __future__ import annotations

import pytest

from penstock.broker.pubend.dead_letters import dead_letter
from penstock.model.body import encode_body
from penstock.model.expiry import expires_at_ms
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.session.work import Shared
from penstock.sim.sharing_index import Letter, SharingIndex
from penstock.sim.worker import GroupPlan
from penstock.sim.world import World
from penstock.work.ledger import Task

PLAN = GroupPlan(Shared("g", shared_by="symbol"), "volume > 5", 0)
PUBEND, TASK = "b1-pubend", ("g", "b1-pubend", 7)


def body(volume: int = 10, expires: float | None = None) -> bytes:
    message = Message({"symbol": "ACME", "volume": volume}, b"payload", expires=expires)
    return encode_body(MessageId(1, 2, 3, 4), message)


def written(*messages: tuple[int, bytes], dead: str = "") -> SharingIndex:
    world = World("index")
    world.add_overlay([("b1", "b2")], settings={"dead_letters": dead}, guaranteed=True)
    broker = world.broker("b1")
    broker.disk.journal = [(dead or PUBEND, tick, each) for tick, each in messages]
    index = SharingIndex({"g": PLAN})
    index.read([broker])
    index.read([broker])
    return index


def test_messages_are_known_with_their_keys_and_ends_once() -> None:
    index = written((7, body()), (8, body(1)), (9, lively := body(expires=2.0)))
    assert index.bodies[PUBEND, 7] == body()
    assert index.keyed["g", PUBEND, "ACME"] == [(7, body()), (9, lively)]
    assert ("g", PUBEND, 8) not in index.keys
    assert index.ends_ms == {(PUBEND, 9): 2_003}
    assert not index.selects("g", body(1))


def test_a_dead_letter_is_known_by_the_message_that_it_stands_for() -> None:
    task = Task(7, attempts=3, history=("attempt 3: refused",), body=body())
    index = written((50, dead_letter(PUBEND, "g", task)), (51, body()), dead="dead")
    ((known, letters),) = index.letters.items()
    assert known == TASK
    assert [letter.attempts for letter in letters] == [3]


@pytest.mark.parametrize(
    ("of", "history", "fault"),
    [
        (body(), "attempt 3: refused", ""),
        (body(expires=2.0), "attempt 3: refused", ""),
        (body(11), "attempt 3: refused", "attributes"),
        (body(), "attempt 2: refused", "given up after attempt 3"),
        (encode_body(MessageId(1, 2, 3, 4), Message({"symbol": "ACME", "volume": 10})), "attempt 3: it", "payload"),
        (encode_body(MessageId(1, 2, 3, 5), Message({"symbol": "ACME"})), "attempt 3: it", "identifier"),
    ],
)
def test_a_dead_letter_has_what_its_message_has_but_the_lifetime(of: bytes, history: str, fault: str) -> None:
    index = written((7, body()))
    letter = dead_letter(PUBEND, "g", Task(7, attempts=3, history=(history,), body=of))
    assert expires_at_ms(letter, {}) is None
    found = index.fault_of(TASK, Letter(letter, 3))
    assert bool(found) == bool(fault)
    assert fault in found


def test_a_dead_letter_of_no_message_is_a_fault() -> None:
    letter = dead_letter(PUBEND, "g", Task(7, body=body()))
    assert written().fault_of(TASK, Letter(letter, 0)) == "stands for no message"
