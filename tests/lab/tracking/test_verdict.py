"""What traces are worth is judged by what is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.lab.tracking.verdict import Chances, TracingVerdict, Truth
from penstock.model.message_id import MessageId
from penstock.tracking.answers import BrokerAnswer, Evidence, GapSeen, Hop, Trace

TRACE = Trace(
    message_id=MessageId(7, 1, 5, 3),
    origin="a",
    published_at="a",
    published=Evidence.YES,
    hops=tuple(
        Hop(name, None, Evidence.YES, is_counted=True, answer=BrokerAnswer(name, Evidence.YES)) for name in "ab"
    ),
    routed_by=("a", "b"),
    delivered_by=("b",),
    receivers=(("b", "x"),),
    probable_false_positives=(),
    unreachable=(),
    unknown=(),
    gaps=(),
    asked=2,
    error_probability=0.01,
    is_truncated=False,
)


def judged(trace: Trace, truth: Truth, *answers: BrokerAnswer) -> TracingVerdict:
    verdict = TracingVerdict()
    verdict.judge(trace, truth, answers)
    return verdict


def test_what_is_found_is_not_missing() -> None:
    verdict = judged(TRACE, Truth(["a", "b"], [("b", "x")]))
    assert (verdict.traced, verdict.hops, verdict.receivers, verdict.expected) == (1, 2, 1, 0.01)
    assert (verdict.misses, verdict.excused, verdict.extra_hops, verdict.extra_receivers) == ([], 0, 0, 0)


def test_what_is_missing_counts_and_what_is_too_much() -> None:
    verdict = judged(TRACE, Truth(["a", "c"], [("b", "y")]))
    assert verdict.misses == [f"{TRACE.message_id} was at c", f"{TRACE.message_id} reached y at b"]
    assert (verdict.extra_hops, verdict.extra_receivers, verdict.excused) == (1, 1, 0)


def test_what_is_missing_where_nobody_could_be_asked_is_excused() -> None:
    verdict = judged(replace(TRACE, unreachable=("c",)), Truth(["a", "b", "c"], [("b", "x"), ("c", "y")]))
    assert (verdict.misses, verdict.excused, verdict.incomplete) == ([], 2, 1)


def test_receivers_are_excused_by_a_gap_in_deliveries_and_hops_are_not() -> None:
    gap = replace(TRACE.hops[1], answer=BrokerAnswer("b", Evidence.YES, delivered=Evidence.GAP))
    trace = replace(
        TRACE, hops=(TRACE.hops[0], gap), receivers=(), routed_by=("a",), gaps=(GapSeen("b", "deliver/1", "crash"),)
    )
    verdict = judged(trace, Truth(["a", "b"], [("b", "x")]))
    assert (verdict.misses, verdict.excused) == ([f"{TRACE.message_id} was at b"], 1)
    assert (verdict.reasons, verdict.incomplete) == ({"crash": 1}, 1)


def test_brokers_that_never_had_it_are_chances_to_be_wrong_unless_they_are_unsure() -> None:
    answers = [
        BrokerAnswer("a", Evidence.YES, path_fpp=0.5),
        BrokerAnswer("c", Evidence.YES, path_fpp=0.1),
        BrokerAnswer("d", Evidence.NO, path_fpp=0.2),
        BrokerAnswer("e", Evidence.GAP, path_fpp=0.3),
    ]
    claims = judged(TRACE, Truth(["a", "b"], []), *answers).claims
    assert (claims.count, claims.wrong) == (2, 1)
    assert claims.predicted == pytest.approx(0.3)


def test_subscribers_who_never_wanted_it_are_chances_where_it_was() -> None:
    at_b = BrokerAnswer("b", Evidence.YES, receivers=("x",), receivers_checked=2, delivery_fpp=0.19)
    elsewhere = BrokerAnswer("c", Evidence.NO, receivers_checked=2, delivery_fpp=0.19)
    unwanted = [("b", "x"), ("b", "z"), ("c", "y")]
    deliveries = judged(TRACE, Truth(["a", "b"], [], unwanted), at_b, elsewhere).deliveries
    assert (deliveries.count, deliveries.wrong) == (2, 1)
    assert deliveries.predicted == pytest.approx(0.2)


def test_brokers_that_err_together_make_the_error_larger() -> None:
    together, apart = Chances(), Chances()
    for wrong in (2, 0):
        together.add_trace([0.5, 0.5], wrong)
        apart.add_trace([0.5, 0.5], 1)
    assert (together.wrong, apart.wrong) == (2, 2)
    assert together.standard_error == pytest.approx(2**0.5)
    assert (apart.standard_error, apart.standard_errors) == (0, 0)
    together.add_trace([0.5], 1)
    assert together.standard_errors == pytest.approx(0.5 / 2.25**0.5)
