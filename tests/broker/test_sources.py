"""What a broker keeps of a publisher: nothing is settled, owed or shared at the beginning."""

from __future__ import annotations

from penstock.broker.sources import NO_REASON, Batch, Passage, Source


def test_a_source_has_received_nothing_and_owes_nothing_at_first() -> None:
    source = Source("p", b"me", "feed@pb/1")
    assert (source.received, source.settled, len(source.outstanding)) == (-1, 0, 0)
    assert (source.unpaid_bytes, source.withheld_bytes, source.held_back) == (0, 0, NO_REASON)
    assert (source.may_jump, source.is_rewinding, source.is_gone) == (True, False, False)
    assert source.passage is None


def test_sources_of_the_same_publisher_are_different_and_share_no_batches() -> None:
    one, other = Source("p", b"me", "feed@pb/1"), Source("p", b"me", "feed@pb/1")
    one.outstanding.append(Batch(1, 10))
    assert one != other
    assert len({one: None, other: None}) == 2
    assert not other.outstanding


def test_a_passage_has_no_round_and_no_way_before_the_first_message() -> None:
    passage = Passage()
    assert (passage.round, passage.parent, passage.ask_ms, passage.held_back.reason) == (0, "", None, "")
    assert (passage.is_first, passage.is_stalled) == (True, False)
