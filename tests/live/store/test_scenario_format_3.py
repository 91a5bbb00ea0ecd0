"""A store that format 3 left on a disk is read as it was written, whatever the code that wrote it has become since."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from live.store.support import append, everything, opened, ticks_of
from penstock.broker.pubend.register import Named, Register
from penstock.live.store.checking import Checked, check
from penstock.model.body import decode_message
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.tracking.stored import decode_filter

KEPT = Path(__file__).parent / "kept" / "format-3"
FILTER = "filter/route/3#0000000000000007"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(KEPT, tmp_path / "store")


def test_messages_are_read(folder: Path) -> None:
    with opened(folder) as store:
        assert store.pubends() == ["b1.alarms", "b1.orders"]
        assert everything(store, "b1.alarms") == [(7, b"seven"), (9, b"")]
        orders = {tick: decode_message(body) for tick, body in everything(store, "b1.orders")}
    assert orders == {1_003: order(3), 1_010: order(4), 1_020: order(5)}


def order(number: int) -> tuple[MessageId, Message]:
    attributes: dict[str, AttributeValue] = {"number": number, "kind": "order", "price": 2.5, "urgent": number == 4}
    return MessageId(1, 2, 1_700_000_000_000, number), Message(attributes, b"payload %d" % number)


def test_what_a_broker_needs_at_its_start_is_read(folder: Path) -> None:
    with opened(folder) as store:
        recovered = store.recovered()
    orders = recovered.pubends["b1.orders"]
    assert (orders.lease, orders.first_tick, orders.last_tick, orders.trimmed_below) == (2_000, 1_003, 1_020, 1_003)
    assert orders.sequences == {b"shop": 5}
    alarms = recovered.pubends["b1.alarms"]
    assert (alarms.lease, alarms.first_tick, alarms.last_tick, alarms.trimmed_below) == (None, 7, 9, 0)
    assert alarms.sequences == {b"probe": 2**40}
    assert recovered.values["incarnation"] == b"42"
    assert Register("b1.orders", dict(recovered.values)).get("billing") == Named(1_010, 3, "b2", "anna")


def test_the_kept_record_is_read(folder: Path) -> None:
    with opened(folder) as store:
        assert list(store.recovered().kept) == [FILTER]
        assert not store.kept_found.is_put_aside
        value = store.read_kept([FILTER], bytes_max=1 << 20).values[FILTER]
    assert value is not None
    stored = decode_filter(value)
    assert (stored.header.filter_id, stored.header.count, stored.header.added_ms) == (7, 7, 12)
    assert stored.body == b"\x07\x01" * 32


def test_it_is_whole_and_needs_no_repair(folder: Path) -> None:
    assert check(folder) == Checked(str(folder), format=3, messages=5)
    with opened(folder) as store:
        assert (store.recovery.created, store.recovery.clean, store.recovery.repaired) == (False, True, "")


def test_it_can_be_continued(folder: Path) -> None:
    with opened(folder) as store:
        append(store, 1_021, 1_022, pubend="b1.orders")
    with opened(folder) as store:
        assert ticks_of(everything(store, "b1.orders")) == [1_003, 1_010, 1_020, 1_021, 1_022]
        assert everything(store, "b1.alarms") == [(7, b"seven"), (9, b"")]
        assert sorted(store.recovered().values) == ["durable/b1.orders/billing", "incarnation"]
        assert list(store.recovered().kept) == [FILTER]
