from __future__ import annotations

from penstock.tracking.answers import BrokerAnswer, Verdict, combined


def test_one_claim_is_enough_and_a_no_needs_all() -> None:
    assert combined([Verdict.NO, Verdict.GAP, Verdict.YES]) is Verdict.YES
    assert combined([Verdict.NO, Verdict.UNKNOWN, Verdict.GAP]) is Verdict.GAP
    assert combined([Verdict.NO, Verdict.UNKNOWN]) is Verdict.UNKNOWN
    assert combined([Verdict.NO, Verdict.NO]) is Verdict.NO
    assert combined([]) is Verdict.NO


def test_who_published_it_had_it() -> None:
    assert BrokerAnswer("a", routed=Verdict.NO, published=Verdict.YES).claim is Verdict.YES
    assert BrokerAnswer("a", routed=Verdict.GAP).claim is Verdict.GAP
