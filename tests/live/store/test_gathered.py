"""What a commit appends, pubend by pubend."""

from __future__ import annotations

import pytest

from penstock.broker.durable import Append, SetValue, Trim
from penstock.live.store.errors import ChangeRefusedError
from penstock.live.store.gathered import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, Gathered, Message, cut
from penstock.live.store.pubend_state import PubendState
from penstock.model.tick import Tick


def numbered(first: int, last: int, *, size: int = 1) -> list[Message]:
    return [(Tick(tick), b"." * size) for tick in range(first, last + 1)]


def test_appends_to_one_pubend_are_gathered_in_order() -> None:
    gathered = Gathered({})
    gathered.check([Append("p", numbered(1, 2)), Append("q", numbered(1, 1)), Append("p", numbered(3, 5))])
    assert gathered.appended == {"p": numbered(1, 5), "q": numbered(1, 1)}


def test_states_are_changed_in_copies() -> None:
    states = {"p": PubendState(number=1, last_tick=Tick(9), lease=Tick(10))}
    gathered = Gathered(states)
    gathered.check([Append("p", lease=Tick(20)), SetValue("v", b"1")])
    assert (gathered.touched["p"].lease, states["p"].lease) == (20, 10)
    assert gathered.state_of("p").lease == 20
    assert gathered.state_of("new") == PubendState()


def test_an_append_below_what_was_trimmed_is_refused() -> None:
    gathered = Gathered({"p": PubendState(number=1, trimmed_below=Tick(9))})
    with pytest.raises(ChangeRefusedError, match="tick 8 is below 9"):
        gathered.check([Append("p", numbered(8, 8))])


def test_a_trim_that_never_ends_is_refused() -> None:
    with pytest.raises(ChangeRefusedError, match="a trim of 0 batches never ends"):
        Gathered({}).check([Trim("p", Tick(1), batches_max=0)])


def test_batches_are_cut_by_bytes_and_by_messages() -> None:
    assert [len(batch) for batch in cut(numbered(1, 5, size=BATCH_BYTES_MAX // 2))] == [2, 2, 1]
    assert [len(batch) for batch in cut(numbered(1, BATCH_MESSAGES_MAX + 1, size=0))] == [BATCH_MESSAGES_MAX, 1]
    assert [len(batch) for batch in cut(numbered(1, 2, size=BATCH_BYTES_MAX + 1))] == [1, 1]
    assert [*cut([])] == []
