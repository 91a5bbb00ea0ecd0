"""The sequence of filter updates on a link: in order, in parts, acknowledged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.neighbours.filters import FILTER_WEIGHT_MAX, HostChange, filter_weight
from penstock.broker.outbox import Outbox
from penstock.broker.peers import LinkSequence, Peer, PeerKind
from penstock.protocol.errors import ProtocolError
from penstock.protocol.frames import FilterUpdate


def change(added: int = 1, removed: int = 0, version: int = 1, host: str = "h") -> HostChange:
    texts = tuple(f"a = {number}" for number in range(added + removed))
    return HostChange(host, 7, version, version - 1, texts[:added], texts[added:])


@given(st.lists(st.tuples(st.integers(0, 2500), st.integers(0, 2500)), max_size=5))
def test_changes_of_any_size_arrive_whole_and_in_order(sizes: list[tuple[int, int]]) -> None:
    sender, receiver = LinkSequence(), LinkSequence()
    sent = [change(added, removed, version) for version, (added, removed) in enumerate(sizes)]
    updates = [update for each in sent for update in sender.number(each)]
    assert [update.sequence for update in updates] == list(range(1, len(updates) + 1))
    taken = [receiver.take(update) for update in updates]
    assert [each for each in taken if each is not None] == sent
    assert receiver.received == sender.sent == len(updates)


def test_a_change_of_more_conjunctions_than_fit_a_frame_travels_in_parts_that_count_down() -> None:
    updates = LinkSequence().number(change(added=750, removed=500, version=9))
    assert [update.version for update in updates] == [-2, -1, 9]
    assert [len(update.added) + len(update.removed) for update in updates] == [500, 500, 250]
    assert {(update.host, update.incarnation, update.base) for update in updates} == {("h", 7, 8)}


def test_an_empty_change_is_one_update() -> None:
    (update,) = LinkSequence().number(HostChange("h", 7, 0, -1, (), ()))
    assert update == FilterUpdate(1, "h", 7, 0, -1)
    assert LinkSequence().take(update) == HostChange("h", 7, 0, -1, (), ())


def test_nothing_is_complete_before_the_last_part() -> None:
    sender, receiver = LinkSequence(), LinkSequence()
    first, second = sender.number(change(added=501))
    assert receiver.take(first) is None
    assert receiver.received == 1
    assert receiver.take(second) == change(added=501)
    # The parts are not kept for the next change.
    assert receiver.take(*sender.number(change(version=2))) == change(version=2)


@pytest.mark.parametrize("sequence", [0, 1, 3, -1])
def test_an_update_out_of_order_is_a_protocol_error(sequence: int) -> None:
    receiver = LinkSequence()
    receiver.take(FilterUpdate(1, "h", 7, 0, -1))
    with pytest.raises(ProtocolError, match=rf"^filter update {sequence} follows 1$"):
        receiver.take(FilterUpdate(sequence, "h", 7, 1, 0))
    assert receiver.received == 1


def test_parts_of_different_hosts_are_not_mixed() -> None:
    receiver = LinkSequence()
    assert receiver.take(FilterUpdate(1, "h", 7, -1, -1, ("a = 1",))) is None
    with pytest.raises(ProtocolError, match="different hosts"):
        receiver.take(FilterUpdate(2, "other", 7, 1, -1, ("a = 2",)))


def test_a_change_that_never_ends_is_a_protocol_error() -> None:
    receiver = LinkSequence()
    for sequence in range(1, 4_001):
        assert receiver.take(FilterUpdate(sequence, "h", 7, -1, -1)) is None
    with pytest.raises(ProtocolError, match="more than 4,000 parts"):
        receiver.take(FilterUpdate(4_001, "h", 7, -1, -1))


def test_a_change_of_more_bytes_than_a_filter_may_have_is_a_protocol_error() -> None:
    receiver = LinkSequence()
    texts = ("x = 1",) * 10_000
    parts = FILTER_WEIGHT_MAX // filter_weight(texts)
    for sequence in range(1, parts + 1):
        assert receiver.take(FilterUpdate(sequence, "h", 7, -1, -1, texts)) is None
    with pytest.raises(ProtocolError, match="bytes"):
        receiver.take(FilterUpdate(parts + 1, "h", 7, -1, -1, texts))


def test_acknowledgements_go_forward_and_not_beyond_what_was_sent() -> None:
    sequence = LinkSequence()
    sequence.number(change())
    sequence.number(change(version=2))
    sequence.number(change(version=3))
    for number in (0, 1, 1, 3):
        sequence.acknowledge(number)
        assert sequence.acknowledged == number
    for number in (2, 4):
        with pytest.raises(ProtocolError, match=rf"^acknowledgement {number} is not in 3 \.\. 3$"):
            sequence.acknowledge(number)
    assert sequence.acknowledged == 3


def test_the_two_directions_of_a_link_do_not_count_together() -> None:
    sequence = LinkSequence()
    sequence.take(FilterUpdate(1, "h", 7, 0, -1))
    assert (sequence.sent, sequence.received) == (0, 1)
    with pytest.raises(ProtocolError, match="acknowledgement 1"):
        sequence.acknowledge(1)
    assert sequence.number(change())[0].sequence == 1


def test_a_peer_is_a_stranger_until_it_has_said_who_it_is() -> None:
    peer = Peer(3, Outbox(control_bytes_max=1, data_bytes_max=1), opened_ms=5, heard_ms=5)
    assert peer.kind is PeerKind.STRANGER
    assert (peer.name, peer.guest, peer.sequence) == ("", None, None)
