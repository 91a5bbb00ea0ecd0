from __future__ import annotations

from penstock.tracking.answers import BrokerAnswer, Evidence, combined


def test_one_claim_is_enough_and_a_no_needs_all() -> None:
    assert combined([Evidence.NO, Evidence.GAP, Evidence.YES]) is Evidence.YES
    assert combined([Evidence.NO, Evidence.UNKNOWN, Evidence.GAP]) is Evidence.GAP
    assert combined([Evidence.NO, Evidence.UNKNOWN]) is Evidence.UNKNOWN
    assert combined([Evidence.NO, Evidence.NO]) is Evidence.NO
    assert combined([]) is Evidence.NO


def test_who_published_it_had_it() -> None:
    assert BrokerAnswer("a", routed=Evidence.NO, published=Evidence.YES).claim is Evidence.YES
    assert BrokerAnswer("a", routed=Evidence.GAP).claim is Evidence.GAP
