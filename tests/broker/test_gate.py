"""The gate: what may go in at once, what waits in its order, and what becomes of those who go away."""

from __future__ import annotations

from penstock.broker.frames import Publish
from penstock.broker.gate import Gate, Held
from penstock.broker.peers import Batch
from penstock.congestion import CongestionSettings, PubendControl, Uca


class Door:
    """A gate for two pubends, which notes what is let in."""

    def __init__(self) -> None:
        self.controls = {name: PubendControl(CongestionSettings(), now_ms=0) for name in ("p", "q")}
        self.admitted: list[tuple[str, int, list[bytes]]] = []
        self.gate = Gate(self.controls, self._admit)
        self.commit = 7

    def offer(self, first: int, *bodies: bytes, pubend: str = "p", connection: int = 1, now_ms: int = 1_000) -> object:
        held = Held(
            Batch(first + len(bodies) - 1, 0), connection, b"", pubend, first, list(bodies), [{} for _ in bodies]
        )
        return self.gate.offer(held, now_ms=now_ms)

    def limit(self, rate: float, pubend: str = "p", now_ms: int = 1_000) -> None:
        self.controls[pubend].shaper.set_rate(rate, now_ms=now_ms)

    def _admit(self, pubend: str, _publisher: bytes, frame: Publish, _decoded: object) -> int:
        self.admitted.append((pubend, frame.first, frame.bodies))
        return self.commit


def test_without_a_limit_everything_goes_in_at_once() -> None:
    door = Door()
    assert door.offer(1, b"a", b"b") == 7
    assert door.admitted == [("p", 1, [b"a", b"b"])]
    assert door.gate.is_open
    assert door.gate.next_deadline(now_ms=1_000) is None


def test_what_may_not_go_in_yet_waits_and_goes_in_part_by_part() -> None:
    door = Door()
    door.limit(10.0)
    assert door.offer(1, b"a", b"b", b"c", now_ms=1_100) is None
    assert door.admitted == [("p", 1, [b"a"])]
    assert door.gate.waiting_messages("p") == 2
    assert door.gate.next_deadline(now_ms=1_100) == 1_200
    assert door.gate.release(now_ms=1_150) == []
    assert door.gate.release(now_ms=1_200) == []
    ((held, commit),) = door.gate.release(now_ms=1_300)
    assert (held.batch.sequence, commit) == (3, 7)
    assert door.admitted == [("p", 1, [b"a"]), ("p", 2, [b"b"]), ("p", 3, [b"c"])]
    assert door.gate.is_open


def test_nobody_overtakes_those_who_wait_but_other_pubends_go_on() -> None:
    door = Door()
    door.limit(10.0)
    door.offer(1, b"a", b"b", now_ms=1_100)
    assert door.offer(1, b"c", connection=2, now_ms=1_200) is None
    assert door.offer(3, b"d", pubend="q", now_ms=1_200) == 7
    assert door.gate.waiting() == {"p": {1: None, 2: None}}
    door.gate.release(now_ms=1_200)
    door.gate.release(now_ms=1_300)
    assert [bodies for _, _, bodies in door.admitted] == [[b"a"], [b"d"], [b"b"], [b"c"]]


def test_what_a_publisher_that_is_gone_had_waiting_is_forgotten() -> None:
    door = Door()
    door.limit(10.0)
    door.offer(1, b"a", b"b", now_ms=1_100)
    door.offer(1, b"c", connection=2, now_ms=1_100)
    door.gate.leave(1)
    assert door.gate.waiting() == {"p": {2: None}}
    door.gate.release(now_ms=1_200)
    assert [bodies for _, _, bodies in door.admitted] == [[b"a"], [b"c"]]
    door.gate.leave(2)
    assert door.gate.is_open


def test_a_pubend_whose_publishers_wait_counts_as_throttled() -> None:
    door = Door()
    control = door.controls["p"]
    for now_ms in range(1_000, 3_000, 10):
        door.offer(1, b"x", now_ms=now_ms)
    dcq = control.on_deadline(1, now_ms=3_000)
    assert dcq is not None
    assert control.on_uca(Uca(dcq.seq, 0.5), now_ms=3_100)
    before = control.rate_msg_s
    assert before is not None
    for now_ms in range(3_100, 9_000, 10):
        if door.gate.is_open or now_ms % 100 == 0:
            door.offer(1, b"x", now_ms=now_ms)
        door.gate.release(now_ms=now_ms)
        control.on_deadline(now_ms, now_ms=now_ms)
    after = control.rate_msg_s
    assert after is not None
    assert after > before
