from __future__ import annotations

from random import Random

from penstock.ajil import Aup
from penstock.ajil.settings import LimitSettings
from penstock.broker.clients.turnstile import Turnstile
from penstock.broker.mechanisms.limiter import Limiter
from penstock.broker.pubend.gate import Held
from penstock.broker.sources import Batch, Source
from penstock.model.values import AttributeValue

HARD = Aup(limit_bytes_s=1_000, mode="hard", version=1)


def source(sender: str = "feed@pb/1", pubend: str = "pb.a") -> Source:
    return Source(pubend, b"", sender)


FEED = source()


def held(first: int, count: int, source: Source = FEED) -> Held:
    bodies = [bytes(100)] * count
    return Held(Batch(first + count - 1, 100 * count), source, first, bodies, [{"topic": "t"}] * count)


def turnstile(aup: Aup = HARD) -> tuple[Turnstile, Limiter]:
    limiter = Limiter("pb", LimitSettings(aup), rng=Random(1))
    return Turnstile(limiter), limiter


def test_what_may_not_go_on_waits_and_is_told_why() -> None:
    stile, limiter = turnstile()
    assert stile.offer(held(1, 3), now_ms=0) == []
    assert "has a share of" in stile.reasons()[FEED][0]
    assert stile.next_deadline(now_ms=0) == 1
    limiter._budget.change(200, 100)
    (part,) = stile.release(now_ms=10)
    assert (part.first, len(part.bodies)) == (1, 2)
    limiter._budget.change(1000, 100)
    (rest,) = stile.release(now_ms=20)
    assert (rest.first, len(rest.bodies)) == (3, 1)
    assert stile.is_open
    assert stile.next_deadline(now_ms=20) is None


def test_a_batch_is_settled_with_its_last_part_only() -> None:
    stile, limiter = turnstile()
    limiter._budget.change(200, 100)
    whole = held(1, 3)
    (part,) = stile.offer(whole, now_ms=0)
    assert part.batch is not whole.batch
    limiter._budget.change(1000, 100)
    (rest,) = stile.release(now_ms=20)
    assert rest.batch is whole.batch


def test_a_publisher_keeps_its_order_and_others_do_not_wait_for_it() -> None:
    stile, limiter = turnstile(Aup(limit_bytes_s=1_000, version=1))
    limiter.want("slow@pb/1", [b""], [{"topic": "t"}])
    limiter._allowances[0].change(0, 0)
    slow = source("slow@pb/1")
    assert stile.offer(held(1, 1, slow), now_ms=0) == []
    assert stile.offer(held(2, 1, slow), now_ms=0) == []
    assert len(stile.offer(held(1, 2, source("fast@pb/2")), now_ms=0)) == 1
    limiter._allowances[0].change(1000, 10)
    assert [each.first for each in stile.release(now_ms=0)] == [1, 2]


def test_a_limit_that_is_lifted_lets_everything_through() -> None:
    stile, limiter = turnstile()
    stile.offer(held(1, 3), now_ms=0)
    assert not stile.is_open
    limiter.apply(LimitSettings(HARD.successor("ann", limit_bytes_s=None)))
    assert sum(len(each.bodies) for each in stile.release(now_ms=5)) == 3


def test_what_a_publisher_that_left_had_waiting_is_gone() -> None:
    stile, _ = turnstile()
    stile.offer(held(1, 3), now_ms=0)
    stile.leave(source())
    assert not stile.is_open
    stile.leave(FEED)
    stile.leave(FEED)
    assert stile.is_open


def mixed(*topics: str, source: Source = FEED) -> Held:
    decoded: list[dict[str, AttributeValue]] = [{"topic": topic} for topic in topics]
    return Held(Batch(len(topics), 1), source, 1, [bytes(100)] * len(topics), decoded)


def slow_group(topic: str) -> tuple[Turnstile, Limiter]:
    """A publisher is stopped in one group."""
    stile, limiter = turnstile(Aup(limit_bytes_s=1_000, version=1))
    limiter.want("feed@pb/1", [b""], [{"topic": topic}])
    limiter._allowances[0].change(0, 0)
    return stile, limiter


def test_groups_do_not_wait_for_each_other_where_order_is_not_kept() -> None:
    stile, limiter = slow_group("slow")
    whole = mixed("slow", "fast", "slow", "fast")
    passed = stile.offer(whole, keeps_order=False, now_ms=0)
    assert [each["topic"] for part in passed for each in part.decoded] == ["fast", "fast"]
    assert passed[0].batch is not whole.batch, "it is settled when all of it has passed"
    assert len(stile.offer(mixed("fast"), keeps_order=False, now_ms=0)) == 1
    limiter._allowances[0].change(1000, 10)
    (rest,) = stile.release(now_ms=0)
    assert [each["topic"] for each in rest.decoded] == ["slow", "slow"]
    assert rest.batch is whole.batch


def test_where_order_is_kept_later_messages_wait_but_not_those_to_another_pubend() -> None:
    stile, _ = slow_group("slow")
    (part,) = stile.offer(mixed("fast", "slow", "fast"), now_ms=0)
    assert len(part.bodies) == 1
    assert len(stile.offer(mixed("fast", source=source(pubend="pb.b")), now_ms=0)) == 1
    assert stile.offer(mixed("fast"), now_ms=0) == []
    assert "group 'slow'" not in stile.reasons()[FEED][0], "its quota is endless here: what waits goes on at once"


def test_a_publisher_is_told_that_its_other_groups_wait_behind_only_where_they_do() -> None:
    for keeps_order in (True, False):
        stile, limiter = turnstile(Aup(limit_bytes_s=1_000, version=1))
        limiter.want("feed@pb/1", [b""], [{"topic": "t"}])
        limiter._allowances[0].change(0, 0)
        limiter._node.reactors[0].quota[0] = 10
        stile.offer(held(1, 1), keeps_order=keeps_order, now_ms=0)
        reason, _ = stile.reasons()[FEED]
        assert reason.startswith("group 't' is slowed down to")
        assert reason.endswith("; its later messages to pubend 'pb.a' also wait, to keep their order") == keeps_order


def test_the_limiter_knows_with_whom_something_had_to_wait() -> None:
    stile, limiter = slow_group("slow")
    assert stile.offer(mixed("slow", "fast"), now_ms=0) == []
    held_groups = [limiter._node.channels[place] for place in limiter._held]
    assert [each.group for each in held_groups if each is not None] == ["slow", "fast"]
