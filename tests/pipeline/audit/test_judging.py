"""One message: what it is to those who should have it, and to those who should not."""

from __future__ import annotations

import pytest

from penstock.pipeline.audit.judging import Finding, Judgement, Seen, judge
from penstock.pipeline.audit.subscribers import Attached, Audited, Subscribers


def seen(
    *receivers: tuple[str, str], tick: int = 100, matching: frozenset[int] = frozenset({0}), doubtful: str = ""
) -> Seen:
    return Seen(tick, "p", matching, receivers, frozenset(doubtful))


def subscribers(*, acknowledged: int | None = 200, attached: int = 1) -> Subscribers:
    times = [Attached("b", 0, 0, {"p": 50}) for _ in range(attached)]
    s = Audited("s", is_durable=True, attached=times, acknowledged={} if acknowledged is None else {"p": acknowledged})
    return Subscribers({"s": s, "t": Audited("t", attached=[Attached("c", 0, 1, {})])}, ("a", "b"))


@pytest.mark.parametrize(
    ("message", "known", "expected"),
    [
        (seen(("b", "s")), subscribers(), [("delivered", "s")]),
        (seen(), subscribers(), [("lost", "s")]),
        (seen(doubtful="b"), subscribers(), [("in-gap", "s")]),
        (seen(doubtful="c"), subscribers(), [("lost", "s")]),
        (seen(tick=200), subscribers(), [("outstanding", "s")]),
        (seen(), subscribers(acknowledged=None), [("outstanding", "s")]),
        (seen(tick=49), subscribers(), []),
        (seen(matching=frozenset()), subscribers(), []),
        (seen(("b", "s"), matching=frozenset()), subscribers(), [("unexpected", "s")]),
        (seen(("b", "s"), ("c", "t")), subscribers(), [("delivered", "s"), ("unexpected", "t")]),
        (seen(("b", "s"), ("c", "t"), matching=frozenset({0, 1})), subscribers(), [("delivered", "s")]),
        (seen(("b", "s"), ("c", "s")), subscribers(), [("duplicated", "s")]),
        (seen(("b", "s"), ("c", "s")), subscribers(attached=2), [("delivered", "s")]),
        (seen(("b", "nobody")), subscribers(), [("lost", "s")]),
    ],
)
def test_a_message_is_judged(message: Seen, known: Subscribers, expected: list[tuple[str, str]]) -> None:
    assert [(each.judgement, each.subscriber) for each in judge(message, known)] == expected


def test_a_selector_that_nobody_recorded_accuses_nobody() -> None:
    known = Subscribers(
        {"s": Audited("s", is_durable=True, attached=[Attached("b", 0, None, {})], acknowledged={"p": 200})}, ()
    )
    assert list(judge(seen(("b", "s")), known)) == []


def test_who_is_accused_is_told_with_its_brokers() -> None:
    assert list(judge(seen(), subscribers())) == [Finding(Judgement.LOST, "s", ("b",))]


def test_a_message_with_a_lifetime_is_not_lost() -> None:
    message = Seen(100, "p", frozenset({0}), (), frozenset(), expires=True)
    assert [each.judgement for each in judge(message, subscribers())] == [Judgement.EXPIRED]
    got = Seen(100, "p", frozenset({0}), (("b", "s"),), frozenset(), expires=True)
    assert [each.judgement for each in judge(got, subscribers())] == [Judgement.DELIVERED]
