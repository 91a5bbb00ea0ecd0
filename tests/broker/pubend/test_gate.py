"""The gate: messages wait before they get a tick, in order, bounded by the rate of their pubend alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.broker.pubend.gate import Gate, Held
from penstock.broker.sources import Batch, Source
from penstock.congestion import CongestionSettings, PubendControl, Uca
from penstock.model.tick import tick_at
from penstock.model.values import AttributeValue

SETTINGS = CongestionSettings.paper(burst_ms=1)


@dataclass
class Admitted:
    """What got its ticks, in order."""

    parts: list[tuple[str, int, list[bytes]]] = field(default_factory=list)
    commits: int = 0
    jumps: int = 0

    def admit(
        self,
        source: Source,
        first: int,
        bodies: list[bytes],
        decoded: list[dict[str, AttributeValue]],
        *,
        may_jump: bool,
        now_ms: int,
    ) -> int:
        assert now_ms > 0
        self.jumps += may_jump
        assert source.publisher == b"me"
        assert len(decoded) == len(bodies)
        self.parts.append((source.pubend, first, bodies))
        self.commits += 1
        return self.commits

    def bodies(self, pubend: str = "p") -> list[bytes]:
        return [body for each, _, bodies in self.parts if each == pubend for body in bodies]


def gate(*pubends: str) -> tuple[Gate, Admitted, dict[str, PubendControl]]:
    controls = {pubend: PubendControl(SETTINGS, now_ms=0) for pubend in pubends or ("p",)}
    admitted = Admitted()
    return Gate(controls, admitted.admit), admitted, controls


def limit(control: PubendControl, rate: float) -> None:
    """Lets a pubend be limited to half a rate at which it has published for a second."""
    for now_ms in range(0, 1_000, 100):
        control.admit(round(rate / 5), now_ms=now_ms)
    dcq = control.on_deadline(tick_at(1_000), now_ms=1_000)
    assert dcq is not None
    assert control.on_uca(Uca(dcq.seq, 0.5), now_ms=1_000)
    assert control.rate_msg_s == rate


def source(pubend: str = "p") -> Source:
    return Source(pubend, b"me", "feed@pb/1")


FIRST, SECOND = source(), source()


def held(count: int, *, source: Source = FIRST, first: int = 1, name: str = "m") -> Held:
    bodies = [f"{name}{number}".encode() for number in range(first, first + count)]
    batch = Batch(first + count - 1, 10)
    return Held(batch, source, first, bodies, [{} for _ in bodies])


def test_without_a_limit_a_batch_passes_at_once_and_says_its_commit() -> None:
    entrance, admitted, _ = gate()
    assert entrance.offer(held(3), now_ms=5) == 1
    assert admitted.bodies() == [b"m1", b"m2", b"m3"]
    assert entrance.is_open
    assert entrance.next_deadline(now_ms=5) is None
    assert entrance.waiting() == {}


def test_of_a_batch_beyond_the_rate_a_part_passes_and_the_rest_follows_in_order() -> None:
    entrance, admitted, controls = gate()
    limit(controls["p"], 10.0)
    assert entrance.offer(held(3), now_ms=1_000) is None
    assert not entrance.is_open
    assert len(admitted.bodies()) < 3
    now_ms = 1_000
    released: list[tuple[Held, int]] = []
    while not released:
        due_ms = entrance.next_deadline(now_ms=now_ms)
        assert due_ms is not None
        assert due_ms > now_ms
        now_ms = due_ms
        released = entrance.release(now_ms=now_ms)
    assert admitted.bodies() == [b"m1", b"m2", b"m3"]
    # The numbers go on where the part before ended: else repetitions would not be recognised.
    assert [first for _, first, _ in admitted.parts] == [
        1 + sum(map(len, admitted.bodies()[:n])) // 2 for n in range(3)
    ]
    # Ten a second: the last of three came at most 0.3 s later, and not in the same breath.
    assert 1_150 <= now_ms <= 1_300
    assert released[0][1] == admitted.commits
    assert entrance.is_open


def test_who_comes_later_waits_behind_those_who_wait_though_one_message_could_pass() -> None:
    entrance, admitted, controls = gate()
    limit(controls["p"], 10.0)
    entrance.offer(held(2), now_ms=1_000)
    entrance.offer(held(1, source=SECOND, name="n"), now_ms=1_900)
    assert b"n1" not in admitted.bodies()
    assert list(entrance.waiting()["p"]) == [FIRST, SECOND]
    for now_ms in range(2_000, 3_000, 100):
        entrance.release(now_ms=now_ms)
    assert admitted.bodies() == [b"m1", b"m2", b"n1"]


def test_who_has_to_wait_makes_the_pubend_throttled_so_that_its_rate_can_rise() -> None:
    entrance, _, controls = gate()
    limit(controls["p"], 10.0)
    for now_ms in range(1_000, 6_000, 100):
        entrance.offer(held(5), now_ms=now_ms)
        entrance.release(now_ms=now_ms)
        controls["p"].on_deadline(tick_at(now_ms), now_ms=now_ms)
    assert (controls["p"].rate_msg_s or 0) > 10.0


def test_pubends_do_not_wait_for_each_other() -> None:
    entrance, admitted, controls = gate("p", "q")
    limit(controls["p"], 10.0)
    assert entrance.offer(held(9), now_ms=1_000) is None
    assert entrance.offer(held(4, source=source("q"), name="q"), now_ms=1_000) is not None
    assert admitted.bodies("q") == [b"q1", b"q2", b"q3", b"q4"]
    assert list(entrance.waiting()) == ["p"]


def test_release_answers_with_every_batch_that_is_through_in_the_order_of_its_pubend() -> None:
    entrance, _, controls = gate("p", "q")
    for control in controls.values():
        limit(control, 100.0)
    sources = [source("pq"[number % 2]) for number in range(6)]
    for each in sources:
        entrance.offer(held(20, source=each), now_ms=1_000)
    released = []
    for now_ms in range(1_000, 4_000, 10):
        released += [sources.index(part.source) for part, _ in entrance.release(now_ms=now_ms)]
    assert sorted(released) == [0, 1, 2, 3, 4, 5]
    assert [place for place in released if place % 2 == 0] == [0, 2, 4]
    assert [place for place in released if place % 2] == [1, 3, 5]


def test_what_a_publisher_left_behind_is_forgotten_and_makes_room() -> None:
    entrance, admitted, controls = gate()
    limit(controls["p"], 10.0)
    entrance.offer(held(50), now_ms=1_000)
    entrance.offer(held(1, source=SECOND, name="n"), now_ms=1_000)
    before = len(admitted.bodies())
    entrance.leave(FIRST)
    assert list(entrance.waiting()["p"]) == [SECOND]
    for now_ms in range(1_000, 1_500, 50):
        entrance.release(now_ms=now_ms)
    assert admitted.bodies()[before:] == [b"n1"]
    entrance.leave(SECOND)
    assert entrance.is_open


def test_leaving_ends_the_waiting_of_a_pubend_where_nobody_else_waits() -> None:
    entrance, _, controls = gate()
    limit(controls["p"], 10.0)
    entrance.offer(held(50), now_ms=1_000)
    entrance.leave(source())
    assert list(entrance.waiting()) == ["p"]
    entrance.leave(FIRST)
    assert entrance.is_open
    assert entrance.release(now_ms=9_000) == []
    assert entrance.next_deadline(now_ms=9_000) is None


def test_when_the_limit_is_lifted_all_that_waits_passes_at_once() -> None:
    entrance, admitted, controls = gate()
    limit(controls["p"], 10.0)
    entrance.offer(held(50), now_ms=1_000)
    controls["p"].tune(CongestionSettings.paper(pdcc=False), now_ms=1_100)
    assert entrance.next_deadline(now_ms=1_100) == 1_100
    assert len(entrance.release(now_ms=1_100)) == 1
    assert len(admitted.bodies()) == 50


def test_a_pubend_at_a_low_rate_is_known_to_be_throttled_although_nobody_knocks() -> None:
    entrance, _, controls = gate("p", "q")
    limit(controls["p"], 10.0)
    entrance.offer(held(50), now_ms=1_000)
    for control in controls.values():
        control.pdcc._is_held_back = False
    entrance.remind()
    assert controls["p"].pdcc._is_held_back
    assert not controls["q"].pdcc._is_held_back


def test_before_a_pubend_has_begun_nothing_passes_and_then_all_does_in_order() -> None:
    waiting = {"p": True}
    admitted = Admitted()
    controls = {"p": PubendControl(SETTINGS, now_ms=0)}
    entrance = Gate(controls, admitted.admit, lambda pubend: waiting[pubend])
    assert entrance.offer(held(2), now_ms=1) is None
    assert entrance.offer(held(1, first=3), now_ms=1) is None
    entrance.remind()
    assert (entrance.next_deadline(now_ms=1), entrance.release(now_ms=1)) == (None, [])
    waiting["p"] = False
    assert [each.batch.sequence for each, _ in entrance.release(now_ms=2)] == [2, 3]
    assert admitted.bodies() == [b"m1", b"m2", b"m3"]
