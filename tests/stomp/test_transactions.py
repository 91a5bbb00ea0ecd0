"""Open transactions: by name, and bounded in number and bytes."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocol.stomp import StompError
from penstock.stomp.destinations import Destination
from penstock.stomp.messages import Outgoing
from penstock.stomp.settings import StompSettings
from penstock.stomp.transactions import Transactions


def message(size: int = 100) -> Outgoing:
    return Outgoing(Destination.parse("/topic/x"), bytes(size), "", is_persistent=True)


def transactions(**settings: Any) -> Transactions:
    return Transactions(StompSettings(**settings))


def test_what_was_added_is_there_at_the_end_in_order() -> None:
    opened = transactions()
    first, second = message(), message()
    opened.begin("t")
    opened.send("t", first)
    opened.send("t", second)
    assert opened.end("t").sends == [first, second]
    with pytest.raises(StompError, match="has not begun"):
        opened.end("t")


def test_a_name_is_used_once_at_a_time() -> None:
    opened = transactions()
    opened.begin("t")
    with pytest.raises(StompError, match="has begun already"):
        opened.begin("t")
    opened.end("t")
    opened.begin("t")


def test_a_name_is_no_longer_than_it_may_be() -> None:
    with pytest.raises(StompError, match="256 characters"):
        transactions().begin("t" * 256)


def test_there_are_no_more_than_there_may_be() -> None:
    opened = transactions(transactions_max=2)
    opened.begin("a")
    opened.begin("b")
    with pytest.raises(StompError, match="2 open"):
        opened.begin("c")
    opened.end("a")
    opened.begin("c")


def test_all_together_have_no_more_bytes_than_they_may() -> None:
    opened = transactions(transaction_bytes=1_000)
    opened.begin("a")
    opened.begin("b")
    opened.send("a", message(300))
    with pytest.raises(StompError, match="1,000 bytes"):
        opened.send("b", message(301))
    opened.send("b", message(300))
    opened.end("a")
    opened.send("b", message(300))


def test_what_never_began_takes_nothing() -> None:
    with pytest.raises(StompError, match="has not begun"):
        transactions().send("t", message())
