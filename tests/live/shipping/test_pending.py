"""What waits to be shipped follows from commits, and only when they are durable."""

from __future__ import annotations

from penstock.broker.durable import Append, KeepRecord, SetValue
from penstock.broker.effects import Commit
from penstock.live.shipping.pending import Pending


def committed(pending: Pending, number: int, *changes: KeepRecord | SetValue | Append) -> None:
    pending.on_submitted(Commit(number, changes))
    pending.on_committed(number)


def test_a_record_waits_when_its_commit_is_durable_and_not_before() -> None:
    pending = Pending()
    pending.on_submitted(Commit(1, (KeepRecord("filter/a", b"1"),)))
    pending.on_submitted(Commit(2, (KeepRecord("filter/b", b"1"),)))
    assert not len(pending)
    pending.on_committed(1)
    assert list(pending.names()) == ["filter/a"]
    pending.on_committed(2)
    assert list(pending.names()) == ["filter/a", "filter/b"]


def test_only_what_the_lake_is_for_waits() -> None:
    pending = Pending()
    committed(
        pending, 1, KeepRecord("mark", b""), KeepRecord("link/b2", b""), SetValue("incarnation", b"1"), Append("p")
    )
    assert not len(pending)


def test_what_changes_again_goes_to_the_end_and_still_waits_after_the_earlier_state_was_shipped() -> None:
    pending = Pending()
    committed(pending, 1, KeepRecord("filter/a", b"1"), KeepRecord("filter/b", b"1"))
    taken = pending.names()
    committed(pending, 2, KeepRecord("filter/a", b"2"))
    assert list(pending.names()) == ["filter/b", "filter/a"]
    pending.on_shipped(taken, {})
    assert list(pending.names()) == ["filter/a"]


def test_positions_wait_with_their_last_value() -> None:
    pending = Pending()
    committed(pending, 1, SetValue("durable/p/a", b"1"), SetValue("durable/p/b", b"1"))
    taken = pending.positions()
    committed(pending, 2, SetValue("durable/p/a", None))
    pending.on_shipped({}, taken)
    assert pending.positions() == {"durable/p/a": None}


def test_an_earlier_life_leaves_something_and_this_one_knows_better() -> None:
    pending = Pending()
    committed(pending, 1, SetValue("durable/p/a", b"2"))
    pending.begin(["filter/a", "link/b2"], {"durable/p/a": b"1", "durable/p/b": None})
    assert list(pending.names()) == ["filter/a"]
    assert pending.positions() == {"durable/p/a": b"2", "durable/p/b": None}
    assert len(pending) == 3
